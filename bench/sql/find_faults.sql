-- Each kind of fault with how often it was found. Every expected event is there and as many as expected: so each is there
-- exactly once.
with closed as materialized (
    select 'Session' as aggregate_type, id as aggregate_id, status, ended_at, duration
    from user_activity.sessions
    where status <> 'Active' or ended_at is not null or duration is not null
    union all
    select 'PropertyObjectView', id, status, ended_at, duration
    from user_activity.property_object_views
    where status <> 'Active' or ended_at is not null or duration is not null
), fault (kind, times) as (
    select 'stale rows that are not closed, or not right', count(*)
    from bench.expected
    left join closed using (aggregate_type, aggregate_id)
    where (closed.status = 'Inactive' and closed.ended_at is not null and closed.duration = expected.duration) is not true
    union all
    select 'live rows that were touched', count(*)
    from closed
    left join bench.expected using (aggregate_type, aggregate_id)
    where expected.aggregate_id is null
    union all
    select 'closed rows without their event, or with a wrong one', count(*)
    from bench.expected
    left join closed using (aggregate_type, aggregate_id)
    left join user_activity.outbox using (aggregate_type, aggregate_id)
    where (outbox.event_type = expected.event_type and outbox.topic = expected.topic and outbox.contract_version = 1
           and outbox.payload = expected.payload and outbox.occurred_at = closed.ended_at
           and outbox.correlation_id is not null and outbox.published_at is null) is not true
    union all
    select 'events too many or too few', abs((select count(*) from user_activity.outbox) - count(*))
    from bench.expected
)
select kind, times
from fault
where times > 0
