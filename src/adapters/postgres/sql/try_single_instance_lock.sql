-- Of the transaction, not of the session: behind a pooler a session's lock would be left on somebody's connection.
select pg_try_advisory_xact_lock(%(key)s)
