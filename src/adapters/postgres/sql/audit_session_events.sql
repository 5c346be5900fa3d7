-- What events of sessions say, beside what their sessions say (specification §7, D-10, D-11).
select case
           when session.id is null then 'event_of_missing_row'
           when session.status is distinct from 'Inactive' then 'event_of_row_not_closed'
           else 'event_differs_from_row'
       end,
       event.aggregate_id, array[event.id], case when session.status = 'Inactive' then said.otherwise end
from user_activity.outbox as event
left join lateral (
    -- By a limit of one, or the planner might read the whole table for each page: 160 ms of 250,000 sessions, not 45.
    select id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at
    from user_activity.sessions
    where id = event.aggregate_id
    limit 1
) as session on true
cross join lateral (
    select array_remove(array[
        case when event.aggregate_type is distinct from %(session_aggregate_type)s then 'aggregateType' end,
        case when event.event_type is distinct from %(session_event_type)s then 'eventType' end,
        case when event.topic is distinct from %(session_topic)s then 'topic' end,
        case when event.contract_version is distinct from %(contract_version)s then 'contractVersion' end,
        case when event.occurred_at <> session.ended_at then 'occurredAt' end,
        case when payload ->> 'sessionId' is distinct from session.id::text then 'sessionId' end,
        case when payload ->> 'anonymousId' is distinct from session.anonymous_id::text then 'anonymousId' end,
        case when payload ->> 'userId' is distinct from session.user_id::text then 'userId' end,
        case
            when payload ->> 'createdAt' is distinct from
                to_char(session.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') then 'createdAt'
        end,
        case
            when payload ->> 'lastActivityAt' is distinct from
                to_char(session.last_activity_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                then 'lastActivityAt'
        end,
        case
            when isfinite(session.created_at) and isfinite(session.last_activity_at)
                 and payload -> 'durationSeconds' is distinct from
                     to_jsonb(floor(extract(epoch from session.last_activity_at - session.created_at)))
                then 'durationSeconds'
        end
    ], null) as otherwise
) as said
where event.id between %(first)s and %(last)s
  -- Events are known by their type or their topic: others may share the outbox, or the type of aggregate.
  and (
      event.event_type = %(session_event_type)s
      or (event.topic = %(session_topic)s and event.event_type is distinct from %(view_event_type)s)
  )
  and greatest(event.occurred_at, session.ended_at) >= %(adopted_at)s
  and case
          when session.id is null then event.occurred_at >= %(rows_kept_since)s
          when session.status is distinct from 'Inactive' then true
          else cardinality(said.otherwise) > 0
      end
