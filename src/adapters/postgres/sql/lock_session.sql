select id, anonymous_id, user_id, created_at, last_activity_at, status, ended_at, duration
from user_activity.sessions
where id = %(id)s
for update
