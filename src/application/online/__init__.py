"""The commands of visitors: they race with the closer, so they are part of its contract (specification §3, D-13)."""
