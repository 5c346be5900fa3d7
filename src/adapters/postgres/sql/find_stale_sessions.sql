-- Phase B: a page of candidates, read ahead without locks; each is tested again under its own lock.
-- The keyset and the literal are there for the reasons given for the views' page.
-- The order names the table, or it would be that of the text, for which the whole backlog is sorted for each page.
select id, last_activity_at::text
from user_activity.sessions
where status = 'Active'
  and last_activity_at < %(cutoff)s
  and (last_activity_at, id) > (%(after_last_activity_at)s::timestamptz, %(after_id)s)
order by sessions.last_activity_at, sessions.id
limit %(limit)s
