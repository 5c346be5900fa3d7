"""A store in memory, with row locks and transactions: real enough to play every race on (specification §3)."""
