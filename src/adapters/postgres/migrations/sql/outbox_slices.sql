-- Small, and written with each lease: half of the page is left free, so that old versions of a row are cleared away
-- within the page, without a vacuum.
create table user_activity.outbox_slices (
    slice smallint not null,
    lease uuid,
    leased_until timestamptz,
    constraint outbox_slices_pkey primary key (slice)
) with (fillfactor = 50);
insert into user_activity.outbox_slices (slice)
select generate_series(0, 15)
