-- The dearest statement of an event's way, 11 of 31 us, since its row is written anew: 2 us of them are for
-- ix_outbox_published, without which retention would read the table; what looks for swallowed ones is too little to
-- measure.
with recorded as (
    update user_activity.outbox
    set published_at = %(at)b
    where id = any((select %(ids)b::uuid[])::uuid[]) and published_at is null
    returning id, published_at
)
-- Those that are recorded or gone already are passed over. One that a trigger kept from being written as asked fails
-- the transaction by a division by zero, or it would be sent again and again.
select 1 / (
    count(*) = count(published_at)
    and (
        count(*) = pg_catalog.cardinality(%(ids)b::uuid[])
        or not exists (
            select
            from user_activity.outbox
            where id = any((select %(ids)b::uuid[])::uuid[])
              and published_at is null
              and id not in (select id from recorded)
            -- As they are now: others may have recorded them since this statement's snapshot.
            for update
        )
    )
)::int
from recorded
