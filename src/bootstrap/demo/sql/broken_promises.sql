-- One statement, so that all of it is about one moment.
with activity as (
    select id, 'Session' as aggregate_type, status, last_activity_at - created_at as active_for, ended_at, duration
    from user_activity.sessions
    union all
    select id, 'PropertyObjectView', status, last_activity_at - created_at, ended_at, duration
    from user_activity.property_object_views
),
events as (
    select aggregate_id as id, aggregate_type, count(*) as count
    from user_activity.outbox
    group by aggregate_id, aggregate_type
)
select
    count(*) filter (where activity.status = 'Inactive' and events.count is distinct from 1)
        as "closed rows without exactly one event",
    count(*) filter (where activity.status is distinct from 'Inactive' and events.count > 0)
        as "events of rows that are not closed",
    count(*) filter (where activity.status = 'Inactive'
            and (activity.ended_at is null or activity.duration is distinct from activity.active_for))
        as "closed rows with a wrong duration",
    (
        select count(*)
        from user_activity.property_object_views as view
        join user_activity.sessions as session on session.id = view.session_id
        where view.status = 'Active' and session.status = 'Inactive'
    ) as "Active views under an Inactive session"
from activity
full join events using (id, aggregate_type)
