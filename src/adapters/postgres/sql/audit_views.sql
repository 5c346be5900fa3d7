-- What a view shows by itself. A closed one is judged if it was closed since the adoption, or, where it does not say
-- when, was active since then.
select unnest(judged.broken), judged.id
from (
    -- An array, with one test a row: 15 ms for 10,000 rows. A list of rules joined to each row took 300 ms.
    select id, array_remove(array[
        case when status = 'Active' and (ended_at is not null or duration is not null) then 'active_row_with_end' end,
        case when status = 'Active' and last_activity_at < %(overdue_before)s then 'overdue_active_row' end,
        case when is_closed_by_us and ended_at is null then 'closed_row_without_ended_at' end,
        case when is_closed_by_us and duration is null then 'closed_row_without_duration' end,
        case when is_closed_by_us and duration < interval '0' then 'negative_duration' end,
        case
            when is_closed_by_us and duration >= interval '0' and duration is distinct from active_for
                then 'wrong_duration'
        end,
        case when is_closed_by_us and ended_at < last_activity_at then 'ended_before_last_activity' end
    ], null) as broken
    from (
        select id, status, last_activity_at, ended_at, duration,
               status = 'Inactive' and coalesce(ended_at, last_activity_at) >= %(adopted_at)s as is_closed_by_us,
               -- Infinite times cannot be subtracted, which before PostgreSQL 17 is an error: no duration is theirs.
               case when isfinite(created_at) and isfinite(last_activity_at) then last_activity_at - created_at end
                   as active_for
        from user_activity.property_object_views
        where id between %(first)s and %(last)s
    ) as activity
) as judged
where cardinality(judged.broken) > 0
