-- More than one only where ux_sessions_active_anonymous_id could not be built: then the youngest is the device's.
select id, anonymous_id, user_id, created_at, last_activity_at, status, ended_at, duration
from user_activity.sessions
where anonymous_id = %(anonymous_id)s and status = 'Active'
order by last_activity_at desc, id desc
limit 1
for update
