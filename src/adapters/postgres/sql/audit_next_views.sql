-- The range of ids of the next page: each check of it is then a statement, with a snapshot, of its own.
with page as materialized (
    select id, status = 'Inactive' and ended_at >= %(ended_since)s as is_closed
    from user_activity.property_object_views
    where id >= %(first)s
    order by id
    limit %(limit)s
)
select count(*), count(*) filter (where is_closed), (select id from page order by id desc limit 1)
from page
