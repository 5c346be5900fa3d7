-- Phase B: the sessions that are still Active and stale, passing over locked ones.
-- FOR UPDATE, nothing weaker: it alone excludes the key share lock that opening a view takes on its session.
-- The array is in a sub-select for the reason given where sessions are closed.
select id, anonymous_id, user_id, created_at, last_activity_at
from user_activity.sessions
where id = any((select %(ids)b::uuid[])::uuid[])
  and status = 'Active'
  and last_activity_at < %(cutoff)s
for update skip locked
