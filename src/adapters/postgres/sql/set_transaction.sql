-- Per transaction, since a pooler refuses settings at connect and a plain SET would stay for its next client.
select set_config('statement_timeout', %(statement_timeout)s, true),
       set_config('lock_timeout', %(lock_timeout)s, true),
       -- A process that stands still in a transaction, suspended say, or behind a dead network, holds its rows no longer.
       set_config('idle_in_transaction_session_timeout', %(statement_timeout)s, true),
       -- A policy that hides views would let their session close over them: with this the statement fails instead.
       set_config('row_security', 'off', true),
       set_config('TimeZone', 'UTC', true),
       set_config('DateStyle', 'ISO, YMD', true)
