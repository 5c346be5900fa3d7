-- Binary arrays: as text each element goes through a regular expression in the client (230 us a session, not 25).
with closed as (
    update user_activity.sessions
    set status = 'Inactive', ended_at = closing.ended_at, duration = closing.duration
    from unnest(%(ids)b::uuid[], %(ended_at)b::timestamptz[], %(durations)b::interval[])
        as closing (id, ended_at, duration)
    where sessions.id = closing.id and sessions.status = 'Active'
    returning sessions.id
)
-- A trigger may keep a row from being changed without an error. Its event must not be sent then, so this divides by
-- zero, which fails the transaction; asking for the count first would cost a round trip for each session.
select 1 / (count(*) = cardinality(%(ids)b::uuid[]))::int from closed
