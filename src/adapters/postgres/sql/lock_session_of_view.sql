-- Session first, then view: the order in which everybody locks (D-13).
select id
from user_activity.sessions
where id = (select session_id from user_activity.property_object_views where id = %(id)s)
for update
