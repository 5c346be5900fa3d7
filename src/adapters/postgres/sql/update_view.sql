update user_activity.property_object_views
set last_activity_at = %(last_activity_at)s
where id = %(id)s
