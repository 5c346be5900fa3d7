-- In a statement after the one that leased the slices: its snapshot sees all that their last holders recorded. One
-- statement that did both would read what was recorded between its snapshot and its lock, and it would be sent twice.
with leased as materialized (
    select slice, (%(starts)b::uuid[])[slice + 1] as start, count(*) over () as slices
    from user_activity.outbox_slices
    where lease = %(lease)b
)
select page.id, page.aggregate_type, page.aggregate_id, page.event_type, page.contract_version, page.topic,
       page.payload::text, page.correlation_id, page.trace_parent, page.occurred_at, page.refusals
from leased
cross join lateral (
    -- In the index's order, from where the last page ended: in the middle of 40,000 events, beside a held snapshot, a
    -- page takes the buffers that the first one took; from the beginning it would take more than five times as many.
    select id, aggregate_type, aggregate_id, event_type, contract_version, topic, payload, correlation_id, trace_parent,
           occurred_at, refusals
    from user_activity.outbox
    where (get_byte(uuid_send(id), 15) & 15) = leased.slice
      and published_at is null
      and dead_at is null
      and id >= leased.start
      and (next_attempt_at is null or next_attempt_at <= %(now)b)
      and (topic = any(%(held_topics)b::text[])) is not true
      and id <> all(%(held_ids)b::uuid[])
    order by id
    limit %(limit)s / leased.slices
) as page
