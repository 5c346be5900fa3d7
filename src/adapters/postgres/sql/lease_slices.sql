-- Leases free slices that hold a due event. Where there is none, nothing is locked or written (100 idle polls: no
-- byte of WAL): to look first, in a statement of its own, would cost each lease a round trip.
--
-- Slices and not events: a second mark on each event, as leased, would cost 11 us more of the 31 us that it takes
-- from here to its mark as delivered; a lease of four slices costs 1 us an event, of a thousand.
with due as materialized (
    -- Materialized, so that no join plan runs the selection again and locks more slices than the limit.
    select slices.slice
    from user_activity.outbox_slices as slices
    -- By a limit of one, or the planner might join all that is pending.
    cross join lateral (
        select 1
        from user_activity.outbox
        -- To the letter what ix_outbox_pending is built on.
        where (get_byte(uuid_send(id), 15) & 15) = slices.slice
          and published_at is null
          and dead_at is null
          -- From where this process has read to: it does not walk over the dead entries of what was delivered before.
          and id >= (%(starts)b::uuid[])[slices.slice + 1]
          and (next_attempt_at is null or next_attempt_at <= %(now)b)
          and (topic = any(%(held_topics)b::text[])) is not true
          and id <> all(%(held_ids)b::uuid[])
        order by id
        limit 1
    ) as event
    where slices.leased_until is null
       or slices.leased_until <= %(now)b
       -- Taken while the database's clock was wrong: no publisher means to keep a slice for days.
       or slices.leased_until > %(ends)b + interval '1 day'
    -- Another one first each time: all have their turn, and publishers spread.
    order by (slices.slice + %(turn)s) & 15
    limit %(slices_max)s
    for update of slices skip locked
)
update user_activity.outbox_slices as slices
set lease = %(lease)b, leased_until = %(ends)b
from due
where slices.slice = due.slice
returning slices.slice
