"""Errors that a client of the online commands sees."""


class SessionNotFound(Exception):
    """There is no Active session; the client calls start-session."""

    code = "USER_ACTIVITY_SESSION_NOT_FOUND"

    def __init__(self) -> None:
        super().__init__(self.code)
