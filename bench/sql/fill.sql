-- Stale sessions with their open views, and a tenth as many live ones that nobody may touch. Everything but the moment
-- `now()` depends on the numbers alone, so that all contenders get the same rows.
create temporary table seed on commit drop as
select number,
       md5('session ' || number)::uuid as id,
       md5('device ' || number)::uuid as anonymous_id,
       case when number % 3 = 0 then md5('user ' || number)::uuid end as user_id,
       now() - interval '1 hour' as created_at,
       -- In an order unlike that of the table: 20 to 30 minutes ago, or within the last 30 seconds.
       case when number <= {sessions} then now() - interval '20 minutes' - number * 7919 % 600000 * interval '1 millisecond'
            else now() - number * 7919 % 30000 * interval '1 millisecond' end as last_activity_at
from generate_series(1::bigint, {sessions} + {sessions} / 10) as number;

insert into user_activity.sessions (id, anonymous_id, user_id, status, created_at, last_activity_at)
select id, anonymous_id, user_id, 'Active', created_at, last_activity_at
from seed;

insert into user_activity.property_object_views
    (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
     last_activity_at)
select md5('view ' || number || ' ' || place)::uuid, md5('object ' || (number + place) % 5000)::uuid, id, anonymous_id,
       case when place % 2 = 0 then 'Map' else 'Catalog' end,
       case when place % 3 = 1 then '{{"city": "Pskov", "rooms": [1, 2], "priceMax": 7500000.50}}'::jsonb end,
       'Active',
       created_at + place * interval '1 second',
       case when {has_fresh_views} then now() else last_activity_at - place * interval '1.5 seconds' end
from seed
cross join generate_series(1, {views}) as place;

-- What must come out of it, in words other than the contenders'.
create schema bench;
create table bench.expected as
select 'Session' as aggregate_type,
       session.id as aggregate_id,
       session.last_activity_at - session.created_at as duration,
       'SessionEndedKafkaEvent' as event_type,
       'pin.user-activity.session-ended.v1' as topic,
       jsonb_build_object(
           'sessionId', session.id,
           'anonymousId', session.anonymous_id,
           'userId', session.user_id,
           'createdAt', to_char(session.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           'lastActivityAt', to_char(session.last_activity_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           'durationSeconds', floor(extract(epoch from session.last_activity_at - session.created_at))
       ) as payload
from seed
join user_activity.sessions as session using (id)
where number <= {sessions}
union all
select 'PropertyObjectView', view.id, view.last_activity_at - view.created_at,
       'PropertyObjectViewEndedKafkaEvent',
       'pin.user-activity.property-object-view-ended.v1',
       jsonb_build_object(
           'propertyObjectViewId', view.id,
           'propertyObjectId', view.property_object_id,
           'sessionId', view.session_id,
           'anonymousId', view.anonymous_id,
           'userId', seed.user_id,
           'viewSource', view.view_source,
           'viewedAt', to_char(view.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           'lastActivityAt', to_char(view.last_activity_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
           'durationSeconds', floor(extract(epoch from view.last_activity_at - view.created_at)),
           'filterSnapshot', view.filter_snapshot
       )
from seed
join user_activity.property_object_views as view on view.session_id = seed.id
where number <= {sessions};
