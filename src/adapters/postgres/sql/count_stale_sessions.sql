select count(*)
from user_activity.sessions
where status = 'Active' and last_activity_at < %(cutoff)s
