-- Phase A again, by id: those that are still Active and older than the cutoff, passing over locked ones.
with claimed as materialized (
    select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, created_at, last_activity_at
    from user_activity.property_object_views
    where id = any((select %(ids)b::uuid[])::uuid[])
      and status = 'Active'
      and last_activity_at < %(cutoff)s
    for update skip locked
)
select claimed.id, claimed.property_object_id, claimed.session_id, claimed.anonymous_id, claimed.view_source,
       claimed.filter_snapshot::text, claimed.created_at, claimed.last_activity_at, sessions.user_id
from claimed
left join user_activity.sessions on sessions.id = claimed.session_id
order by claimed.last_activity_at, claimed.id
