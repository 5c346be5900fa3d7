create table user_activity.sessions (
    id uuid not null,
    anonymous_id uuid not null,
    user_id uuid,
    status text not null,
    device_ip_address text,
    device_user_agent text,
    created_at timestamptz not null,
    last_activity_at timestamptz not null,
    ended_at timestamptz,
    duration interval,
    constraint sessions_pkey primary key (id),
    constraint chk_sessions_duration_nonneg check (duration >= interval '0')
);
create index ix_sessions_active_last_activity
    on user_activity.sessions (last_activity_at, id) where status = 'Active';
create unique index ux_sessions_active_anonymous_id
    on user_activity.sessions (anonymous_id) where status = 'Active'
