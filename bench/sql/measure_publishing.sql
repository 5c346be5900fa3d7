-- Pending events, events that were recorded after the first ones, and how long it took from the first to the last.
select count(*) filter (where published_at is null),
       count(*) filter (where published_at > first),
       extract(epoch from max(published_at) - min(published_at))
from user_activity.outbox,
     lateral (select min(published_at) as first from user_activity.outbox) as beginning
