select count(*)
from user_activity.outbox
where published_at is null and dead_at is null and (next_attempt_at is null or next_attempt_at <= %(now)b)
