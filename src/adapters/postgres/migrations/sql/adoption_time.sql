create table if not exists user_activity.activity_closer_adoption (
    is_only_row boolean not null,
    adopted_at timestamptz not null,
    constraint activity_closer_adoption_pkey primary key (is_only_row),
    constraint chk_activity_closer_adoption_is_only_row check (is_only_row)
);
insert into user_activity.activity_closer_adoption (is_only_row, adopted_at)
values (true, clock_timestamp())
on conflict do nothing
