create table user_activity.outbox (
    id uuid not null,
    aggregate_type text not null,
    aggregate_id uuid not null,
    event_type text not null,
    contract_version integer not null,
    topic text not null,
    payload jsonb not null,
    correlation_id uuid not null,
    trace_parent text,
    occurred_at timestamptz not null,
    published_at timestamptz,
    constraint outbox_pkey primary key (id)
)
