select id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload::text, correlation_id, trace_parent,
       occurred_at, refusals, cause, dead_at
from user_activity.outbox
where dead_at is not null
  and published_at is null
  and id >= coalesce(%(after)b::uuid, '00000000-0000-0000-0000-000000000000')
  and id is distinct from %(after)b::uuid
order by id
limit %(limit)s
