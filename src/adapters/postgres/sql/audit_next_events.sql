-- As for the rows.
with page as materialized (
    select id
    from user_activity.outbox
    where id >= %(first)s
    order by id
    limit %(limit)s
)
select count(*), (select id from page order by id desc limit 1)
from page
