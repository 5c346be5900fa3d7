select
    (select count(*) from user_activity.sessions where status = 'Active') as active_sessions,
    (select count(*) from user_activity.sessions where status = 'Inactive') as inactive_sessions,
    (select count(*) from user_activity.property_object_views where status = 'Active') as active_views,
    (select count(*) from user_activity.property_object_views where status = 'Inactive') as inactive_views,
    (select count(*) from user_activity.outbox) as events
