with old as materialized (
    select id
    from user_activity.outbox
    where published_at < %(before)b
    order by published_at
    limit %(limit)s
    for update skip locked
), removed as (
    -- Not a join: the plan for any limit expects a tenth of the table, and reads all of it.
    delete from user_activity.outbox
    where id = any(array(select id from old))
    returning 1
)
select count(*) from removed
