-- First the few events, then their rows by primary key: the tables grow while somebody watches.
with latest as (
    select id, aggregate_id, event_type, occurred_at
    from user_activity.outbox
    order by occurred_at desc, id desc
    limit %(limit)s
),
closed as (
    select latest.*, 'session' as kind, session.last_activity_at, session.ended_at, session.duration
    from latest
    join user_activity.sessions as session on session.id = latest.aggregate_id
    union all
    select latest.*, 'view', view.last_activity_at, view.ended_at, view.duration
    from latest
    join user_activity.property_object_views as view on view.id = latest.aggregate_id
)
select kind, aggregate_id as id, ended_at, duration, ended_at - last_activity_at as lag, event_type
from closed
where ended_at is not null and duration is not null
order by occurred_at desc, closed.id desc
