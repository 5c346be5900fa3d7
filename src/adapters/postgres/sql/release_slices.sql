update user_activity.outbox_slices
set lease = null, leased_until = null
where lease = %(lease)b
