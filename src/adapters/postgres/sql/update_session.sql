update user_activity.sessions
set last_activity_at = %(last_activity_at)s, user_id = %(user_id)s
where id = %(id)s
