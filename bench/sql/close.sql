-- A limit, not a solution: it locks a session and closes its views in one statement, and so loses views that are opened
-- meanwhile (D-03).
-- pgbench takes a colon before a letter for a variable of its own, so those in the times are quoted.
with claimed as materialized (
    select id, user_id
    from user_activity.sessions
    where status = 'Active' and last_activity_at < now() - interval '12 minutes'
    order by last_activity_at, id
    limit {limit}
    for update skip locked
), closed_views as (
    update user_activity.property_object_views as view
    set status = 'Inactive', ended_at = now(), duration = last_activity_at - created_at
    from claimed
    where view.session_id = claimed.id and view.status = 'Active'
    returning view.*, claimed.user_id
), closed_sessions as (
    update user_activity.sessions as session
    set status = 'Inactive', ended_at = now(), duration = last_activity_at - created_at
    from claimed
    where session.id = claimed.id
    returning session.*
)
insert into user_activity.outbox
    (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, occurred_at)
select gen_random_uuid(), 'PropertyObjectView', id, 'PropertyObjectViewEndedKafkaEvent', 1,
       'pin.user-activity.property-object-view-ended.v1',
       jsonb_build_object(
           'propertyObjectViewId', id, 'propertyObjectId', property_object_id, 'sessionId', session_id,
           'anonymousId', anonymous_id, 'userId', user_id, 'viewSource', view_source,
           'viewedAt', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"'),
           'lastActivityAt', to_char(last_activity_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"'),
           'durationSeconds', floor(extract(epoch from duration)), 'filterSnapshot', filter_snapshot),
       uuid '00000000-0000-7000-8000-000000000000', ended_at
from closed_views
union all
select gen_random_uuid(), 'Session', id, 'SessionEndedKafkaEvent', 1, 'pin.user-activity.session-ended.v1',
       jsonb_build_object(
           'sessionId', id, 'anonymousId', anonymous_id, 'userId', user_id,
           'createdAt', to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"'),
           'lastActivityAt', to_char(last_activity_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24":"MI":"SS.US"Z"'),
           'durationSeconds', floor(extract(epoch from duration))),
       uuid '00000000-0000-7000-8000-000000000000', ended_at
from closed_sessions;
