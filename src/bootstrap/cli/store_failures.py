"""How a command ends when a store does not serve (specification §10)."""

from application.ports.store_errors import AccessDenied, LockTimeout, SchemaMissing, StoreError, StoreUnavailable
from bootstrap.exit_codes import ExitCode, ExpectedError


def expected_error(error: StoreError) -> ExpectedError:
    """Return what the process says and ends with."""
    match error:
        case AccessDenied():
            return ExpectedError(f"a right is missing: {error.reason}", exit_code=ExitCode.MISSING_RIGHT)
        case SchemaMissing():
            line = f"the schema is not there: {error.reason}; run `activity-closer migrate`"
            return ExpectedError(line, exit_code=ExitCode.UNAVAILABLE)
        case StoreUnavailable():
            return ExpectedError(f"the database is unavailable: {error.reason}", exit_code=ExitCode.UNAVAILABLE)
    line = f"the database refused: {error.kind}, {error.reason}"
    is_locked = isinstance(error, LockTimeout)  # a migration holds a table, say
    return ExpectedError(line, exit_code=ExitCode.TRY_AGAIN_LATER if is_locked else ExitCode.UNEXPECTED_FAILURE)
