insert into user_activity.property_object_views
    (id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, status, created_at,
     last_activity_at, ended_at, duration)
values
    (%(id)s, %(property_object_id)s, %(session_id)s, %(anonymous_id)s, %(view_source)s, %(filter_snapshot)s::jsonb,
     %(status)s, %(created_at)s, %(last_activity_at)s, %(ended_at)s, %(duration)s)
