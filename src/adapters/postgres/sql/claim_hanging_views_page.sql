-- Phase A: locks the next page of Active views that are older than the cutoff, oldest first, passing over locked ones.
with page as materialized (
    -- Materialized, so that no join plan runs the selection again and locks more rows than the limit.
    -- The status is a literal: with a parameter a generic plan could not use the partial index.
    -- The row comparison begins where the last page ended: from the start, the scan would walk over all dead entries
    -- that a held snapshot keeps (2,900 closings/s fell to 151 after 50,000).
    select id, property_object_id, session_id, anonymous_id, view_source, filter_snapshot, created_at, last_activity_at
    from user_activity.property_object_views
    where status = 'Active'
      and last_activity_at < %(cutoff)s
      and (last_activity_at, id) > (%(after_last_activity_at)s::timestamptz, %(after_id)s)
    order by last_activity_at, id
    limit %(limit)s
    for update skip locked
)
select page.id, page.property_object_id, page.session_id, page.anonymous_id, page.view_source,
       page.filter_snapshot::text, page.created_at, page.last_activity_at, sessions.user_id, page.last_activity_at::text
from page
-- A view whose session is gone counts too, or the page would not look full, and the phase would end.
left join user_activity.sessions on sessions.id = page.session_id
order by page.last_activity_at, page.id
