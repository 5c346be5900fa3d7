"""What can go wrong in a store, as far as the application decides by it (D-06)."""


class StoreError(Exception):
    """Something went wrong in the store; the transaction is rolled back.

    `kind` is a bounded name (an SQLSTATE, or a word such as `connection`), `reason` one line for a person. Neither
    holds anything personal, so both may be logged.
    """

    def __init__(self, *, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class StoreUnavailable(StoreError):
    """Infrastructure: the store as a whole does not serve; the next row would fare no better."""


class ConnectingCancelled(StoreUnavailable):
    """The end was asked for while a connection was being made."""


class AccessDenied(StoreUnavailable):
    """The store refuses for want of a right; an operator has to grant it."""


class SchemaMissing(StoreUnavailable):
    """A table or column is not there; an operator has to migrate."""


class TransactionRefused(StoreError):
    """The transaction failed for something in it; others may well succeed."""


class LockTimeout(TransactionRefused):
    """Somebody held a table, or a row that a command waits for, for too long; at once it would be no better."""


class OutdatedPlan(TransactionRefused):
    """The transaction failed on a plan cached before a table changed; the plan is gone, so doing it again works."""


class ActiveSessionExists(TransactionRefused):
    """Another Active session of the device was there first (`ux_sessions_active_anonymous_id`)."""


class SingleInstanceHeld(Exception):
    """Another instance holds the single-instance lock, so this one has nothing to do (D-09); nothing went wrong."""
