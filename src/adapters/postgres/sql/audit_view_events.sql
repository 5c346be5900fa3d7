-- As for the events of sessions.
select case
           when view.id is null then 'event_of_missing_row'
           when view.status is distinct from 'Inactive' then 'event_of_row_not_closed'
           else 'event_differs_from_row'
       end,
       event.aggregate_id, array[event.id], case when view.status = 'Inactive' then said.otherwise end
from user_activity.outbox as event
left join lateral (
    select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
           last_activity_at, ended_at
    from user_activity.property_object_views
    where id = event.aggregate_id
    limit 1
) as view on true
left join lateral (
    select id, user_id, ended_at
    from user_activity.sessions
    where id = view.session_id
    limit 1
) as session on true
cross join lateral (
    select array_remove(array[
        case when event.aggregate_type is distinct from %(view_aggregate_type)s then 'aggregateType' end,
        case when event.event_type is distinct from %(view_event_type)s then 'eventType' end,
        case when event.topic is distinct from %(view_topic)s then 'topic' end,
        case when event.contract_version is distinct from %(contract_version)s then 'contractVersion' end,
        case when event.occurred_at <> view.ended_at then 'occurredAt' end,
        case when payload ->> 'propertyObjectViewId' is distinct from view.id::text then 'propertyObjectViewId' end,
        case
            when payload ->> 'propertyObjectId' is distinct from view.property_object_id::text then 'propertyObjectId'
        end,
        case when payload ->> 'sessionId' is distinct from view.session_id::text then 'sessionId' end,
        case when payload ->> 'anonymousId' is distinct from view.anonymous_id::text then 'anonymousId' end,
        -- The session's user at closing: a session that had none may have got one since, unless it ended with the view.
        case
            when session.id is not null
                 and payload ->> 'userId' is distinct from session.user_id::text
                 and (payload ->> 'userId' is not null or view.ended_at = session.ended_at)
                then 'userId'
        end,
        case when payload ->> 'viewSource' is distinct from view.view_source then 'viewSource' end,
        case
            when payload ->> 'viewedAt' is distinct from
                to_char(view.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') then 'viewedAt'
        end,
        case
            when payload ->> 'lastActivityAt' is distinct from
                to_char(view.last_activity_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
                then 'lastActivityAt'
        end,
        case
            when isfinite(view.created_at) and isfinite(view.last_activity_at)
                 and payload -> 'durationSeconds' is distinct from
                     to_jsonb(floor(extract(epoch from view.last_activity_at - view.created_at)))
                then 'durationSeconds'
        end,
        case
            when coalesce(payload -> 'filterSnapshot', 'null') is distinct from coalesce(view.filter_snapshot, 'null')
                then 'filterSnapshot'
        end
    ], null) as otherwise
) as said
where event.id between %(first)s and %(last)s
  and (
      event.event_type = %(view_event_type)s
      or (event.topic = %(view_topic)s and event.event_type is distinct from %(session_event_type)s)
  )
  and greatest(event.occurred_at, view.ended_at) >= %(adopted_at)s
  and case
          when view.id is null then event.occurred_at >= %(rows_kept_since)s
          when view.status is distinct from 'Inactive' then true
          else cardinality(said.otherwise) > 0
      end
