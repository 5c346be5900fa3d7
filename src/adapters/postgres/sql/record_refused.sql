with recorded as (
    update user_activity.outbox
    set refusals = refused.refusals, cause = refused.cause, next_attempt_at = refused.next_attempt_at,
        dead_at = case when refused.next_attempt_at is null then %(at)b::timestamptz end
    from unnest((select %(ids)b::uuid[]), (select %(refusals)b::int[]), (select %(causes)b::text[]),
                (select %(next_attempts_at)b::timestamptz[]))
        as refused (id, refusals, cause, next_attempt_at)
    where outbox.id = refused.id and outbox.published_at is null and outbox.dead_at is null
    returning outbox.id, outbox.next_attempt_at is not null or outbox.dead_at is not null as is_as_asked
)
-- As with the delivered ones: a refusal that is not recorded would be tried again without end.
select 1 / (
    count(*) = count(*) filter (where is_as_asked)
    and (
        count(*) = pg_catalog.cardinality(%(ids)b::uuid[])
        or not exists (
            select
            from user_activity.outbox
            where id = any((select %(ids)b::uuid[])::uuid[])
              and published_at is null and dead_at is null
              and id not in (select id from recorded)
            for update
        )
    )
)::int
from recorded
