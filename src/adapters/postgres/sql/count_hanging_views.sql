select count(*)
from user_activity.property_object_views
where status = 'Active' and last_activity_at < %(cutoff)s
