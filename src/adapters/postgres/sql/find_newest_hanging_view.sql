select id
from user_activity.property_object_views
where status = 'Active' and last_activity_at < %(cutoff)s
order by last_activity_at desc, id desc
limit 1
