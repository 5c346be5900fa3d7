"""The log: one JSON object a line, or lines for a person, on stderr (specification §8)."""

from adapters.structlog.configuration import configure_logging
from adapters.structlog.publish_log import PublishLog
from adapters.structlog.run_log import RunLog

__all__ = ["PublishLog", "RunLog", "configure_logging"]
