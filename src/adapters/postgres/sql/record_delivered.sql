with recorded as (
    update user_activity.outbox
    set published_at = %(at)b
    where id = any((select %(ids)b::uuid[])::uuid[]) and published_at is null
    returning id
)
-- Those that are recorded or gone already are passed over. One that a trigger kept from being written fails the transaction
-- by a division by zero, or it would be sent again and again.
select 1 / (
    count(*) = pg_catalog.cardinality(%(ids)b::uuid[])
    or not exists (
        select
        from user_activity.outbox
        where id = any((select %(ids)b::uuid[])::uuid[])
          and published_at is null
          and id not in (select id from recorded)
    )
)::int
from recorded
