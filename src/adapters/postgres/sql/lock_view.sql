select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot::text, created_at,
       last_activity_at, status, ended_at, duration
from user_activity.property_object_views
where id = %(id)s
for update
