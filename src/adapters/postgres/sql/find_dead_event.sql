select id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload::text, correlation_id, trace_parent,
       occurred_at, refusals, cause, dead_at
from user_activity.outbox
where id = %(id)b and dead_at is not null and published_at is null
