with added as (
    insert into user_activity.outbox
        (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, trace_parent,
         occurred_at)
    select id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload::jsonb, correlation_id,
           trace_parent, occurred_at
    from unnest(%(ids)b::uuid[], %(aggregate_types)b::text[], %(aggregate_ids)b::uuid[], %(event_types)b::text[],
                %(contract_versions)b::int[], %(topics)b::text[], %(payloads)b::text[], %(correlation_ids)b::uuid[],
                %(trace_parents)b::text[], %(occurred_at)b::timestamptz[])
        as message (id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id,
                    trace_parent, occurred_at)
    returning 1
)
-- An event that a trigger swallowed fails the transaction, as a row that is not as asked does.
select 1 / (count(*) = pg_catalog.cardinality(%(ids)b::uuid[]))::int from added
