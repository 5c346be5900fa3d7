select cause, count(*)
from user_activity.outbox
where dead_at is not null and published_at is null
group by cause
