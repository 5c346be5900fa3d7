with retried as (
    update user_activity.outbox
    set refusals = 0, cause = null, next_attempt_at = null, dead_at = null
    where id = any((select %(ids)b::uuid[])::uuid[]) and dead_at is not null and published_at is null
    returning 1
)
select count(*) from retried
