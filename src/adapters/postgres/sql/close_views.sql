with closed as (
    update user_activity.property_object_views
    set status = 'Inactive', ended_at = closing.ended_at, duration = closing.duration
    from unnest((select %(ids)b::uuid[]), (select %(ended_at)b::timestamptz[]), (select %(durations)b::interval[]))
        as closing (id, ended_at, duration)
    where property_object_views.id = closing.id and property_object_views.status = 'Active'
    returning property_object_views.status = 'Inactive'
        and property_object_views.ended_at = closing.ended_at
        and property_object_views.duration = closing.duration as is_as_asked
)
-- As with the sessions, a row that is not as asked fails the transaction.
select 1 / (count(*) filter (where is_as_asked) = pg_catalog.cardinality(%(ids)b::uuid[]))::int from closed
