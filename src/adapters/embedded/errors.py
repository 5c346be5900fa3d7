"""What can go wrong with the embedded server."""


class EmbeddedPostgresError(Exception):
    """The embedded server cannot be used: one line that says why, then the end of its log where there is one."""

    def __init__(self, reason: str, log_tail: str = "") -> None:
        super().__init__(reason, log_tail)
        self.reason = reason
        self.log_tail = log_tail

    def __str__(self) -> str:
        return f"{self.reason}\n{self.log_tail}" if self.log_tail else self.reason
