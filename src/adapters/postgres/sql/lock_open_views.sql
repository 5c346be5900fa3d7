-- Phase B, in a statement after the one that locked the sessions: its snapshot sees every view that was opened before
-- the lock. In one statement with it, views are lost (measured: 283 in 20,000 closings beside six clients).
with own as materialized (
    -- Sessions that somebody else holds are left alone: to lock their views would only make that one defer.
    select id
    from user_activity.sessions
    where id = any((select %(session_ids)b::uuid[])::uuid[]) and status = 'Active'
    for update skip locked
), locked as materialized (
    -- Its columns are those under the lock: a heartbeat may have been committed since the snapshot.
    select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot::text, created_at,
           last_activity_at
    from user_activity.property_object_views
    where session_id = any(array(select id from own)) and status = 'Active'
    for update skip locked
)
select locked.*, true as is_locked
from locked
union all
-- Same snapshot as above, so a view that is open but not locked by us is somebody else's. Not a join: for a session of
-- thousands of views the planner would expect a few, and loop.
select id, null, session_id, null, null, null, null, null, false
from user_activity.property_object_views
where session_id = any(array(select id from own))
  and status = 'Active'
  and id not in (select id from locked)
order by id
