-- INV-LV-007. Judged whoever closed the session, and when.
select 'active_view_of_inactive_session', view.id
from user_activity.property_object_views as view
join user_activity.sessions as session on session.id = view.session_id
where view.id between %(first)s and %(last)s
  and view.status = 'Active'
  and session.status = 'Inactive'
