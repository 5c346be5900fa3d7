-- READ COMMITTED by ourselves: SKIP LOCKED under a stricter default of the role fails with 40001. Whether the
-- transaction may write stays the server's word, so that a standby says so.
begin isolation level read committed
