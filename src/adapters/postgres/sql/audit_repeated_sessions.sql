-- Of the Active sessions of a device the one that was active last is the device's; the others are too many. There can
-- be some only where ux_sessions_active_anonymous_id could not be built.
with ranked as materialized (
    select id, row_number() over (partition by anonymous_id order by last_activity_at desc, id desc) as place
    from user_activity.sessions
    where status = 'Active' and anonymous_id is not null
)
select 'repeated_active_session', id
from ranked
where place > 1 and id >= %(first)s
order by id
limit %(limit)s
