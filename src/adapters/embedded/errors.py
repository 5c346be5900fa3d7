"""What can go wrong with the embedded servers."""

_LOG_TAIL_LINES = 10


class EmbeddedServerError(Exception):
    """An embedded server cannot be used: one line that says why, then the end of its log where there is one."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason, log)
        self.reason = reason
        self.log_tail = "\n".join(log.strip().splitlines()[-_LOG_TAIL_LINES:])

    def __str__(self) -> str:
        return f"{self.reason}\n{self.log_tail}" if self.log_tail else self.reason


class EmbeddedPostgresError(EmbeddedServerError):
    """The embedded PostgreSQL cannot be used."""


class EmbeddedBrokerError(EmbeddedServerError):
    """The embedded broker cannot be used."""
