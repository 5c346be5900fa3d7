-- Events as the closer writes them: ids in the order of time, a payload of about 440 bytes.
insert into user_activity.outbox
    (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, occurred_at)
select (lpad(to_hex((extract(epoch from occurred_at) * 1000)::bigint), 12, '0') || '7' || substr(md5('e' || number), 14))::uuid,
       'PropertyObjectView', md5('v' || number)::uuid, 'PropertyObjectViewEndedKafkaEvent', 1, '{topic}',
       jsonb_build_object(
           'propertyObjectViewId', md5('v' || number)::uuid, 'propertyObjectId', md5('p' || number % 5000)::uuid,
           'sessionId', md5('s' || number / 3)::uuid, 'anonymousId', md5('a' || number % 50000)::uuid, 'userId', null,
           'viewSource', 'Map', 'viewedAt', '2026-01-01T10:00:00.123456Z',
           'lastActivityAt', '2026-01-01T10:40:00.123456Z', 'durationSeconds', 2400,
           'filterSnapshot', '{{"city": "Tver", "rooms": [1, 2]}}'::jsonb),
       md5('run')::uuid, occurred_at
from generate_series(1, {events}) as number,
     lateral (select timestamptz '2026-01-01 11:00:00+00' + number * interval '0.1 ms') as time (occurred_at)
