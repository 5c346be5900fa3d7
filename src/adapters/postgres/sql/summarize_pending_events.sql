select count(*), count(next_attempt_at), min(occurred_at)
from user_activity.outbox
where published_at is null and dead_at is null
