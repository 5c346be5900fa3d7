-- Phase A, where a page cannot be claimed as a whole: which rows it has, as for the candidates of phase B.
select id, last_activity_at::text
from user_activity.property_object_views
where status = 'Active'
  and last_activity_at < %(cutoff)s
  and (last_activity_at, id) > (%(after_last_activity_at)s::timestamptz, %(after_id)s)
order by property_object_views.last_activity_at, property_object_views.id
limit %(limit)s
