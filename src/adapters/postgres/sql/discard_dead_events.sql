with discarded as (
    delete from user_activity.outbox
    where id = any((select %(ids)b::uuid[])::uuid[]) and dead_at is not null and published_at is null
    returning 1
)
select count(*) from discarded
