insert into user_activity.sessions
    (id, anonymous_id, user_id, status, created_at, last_activity_at, ended_at, duration)
values
    (%(id)s, %(anonymous_id)s, %(user_id)s, %(status)s, %(created_at)s, %(last_activity_at)s, %(ended_at)s,
     %(duration)s)
