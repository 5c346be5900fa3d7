create table user_activity.property_object_views (
    id uuid not null,
    property_object_id uuid not null,
    session_id uuid not null,
    anonymous_id uuid not null,
    view_source text not null,
    filter_snapshot jsonb,
    status text not null,
    created_at timestamptz not null,
    last_activity_at timestamptz not null,
    ended_at timestamptz,
    duration interval,
    constraint property_object_views_pkey primary key (id),
    constraint fk_property_object_views_session_id
        foreign key (session_id) references user_activity.sessions (id) on delete restrict,
    constraint chk_property_object_views_duration_nonneg check (duration >= interval '0')
);
create index ix_property_object_views_active_last_activity
    on user_activity.property_object_views (last_activity_at, id) where status = 'Active';
create index ix_property_object_views_active_session
    on user_activity.property_object_views (session_id) where status = 'Active'
