-- Closed sessions with another number of events than one. Row and event are committed together: one snapshot has both.
-- The outbox has no index by which to find an event by its row, and nothing else needs one: it is read as a whole, once
-- for a range of rows (3 s for 500,000 rows beside 1,000,000 events of 600 MB).
select closed.id, least(closed.ended_at, timestamptz '9999-12-31 00:00Z'),
       array_agg(event.id) filter (where event.id is not null)
from user_activity.sessions as closed
left join user_activity.outbox as event
    on event.aggregate_id = closed.id
    -- As of the rows below: what is outside of the range need not be joined.
    and event.aggregate_id between %(first)s and %(last)s
    and (event.event_type = %(session_event_type)s or event.topic = %(session_topic)s)
where closed.id between %(first)s and %(last)s
  and closed.status = 'Inactive'
  and closed.ended_at >= %(ended_since)s
group by closed.id, closed.ended_at
having count(event.id) <> 1
order by closed.id
limit %(limit)s
