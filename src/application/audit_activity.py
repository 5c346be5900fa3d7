"""The audit: whether what is stored keeps the rules (specification §2, §6 to §9)."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final

from attrs import field, frozen
from attrs.validators import ge

from application.ports.activity_audit import ActivityAudit, AuditTerms, Examined, Finding, FindingKind

WARNINGS: Final = frozenset({FindingKind.ENDED_BEFORE_LAST_ACTIVITY})
"""What is worth knowing, and breaks no promise."""
OVERDUE_THRESHOLDS: Final = 2
"""After how many times the inactivity threshold an Active row should long have been closed (specification §9)."""
ROWS_KEPT_FOR: Final = timedelta(days=365)
"""The service removes Inactive rows after twelve months; an event that waits for so long outlives its row."""
RETENTION_MARGIN: Final = timedelta(minutes=1)
"""Those who remove events may go by another server's clock, after a failover say."""


@frozen(kw_only=True)
class AuditOptions:
    """What an audit judges by, and how much of it is kept."""

    inactivity_threshold: timedelta
    outbox_retention: timedelta | None
    """How long delivered events stay in the outbox; None where somebody else empties it."""
    examples_max: int = field(validator=ge(0))
    """Findings of a kind that are kept; all are counted."""


@frozen(kw_only=True)
class Found:
    """All findings of a kind."""

    count: int
    examples: tuple[Finding, ...]
    """The first ones."""


@frozen(kw_only=True)
class AuditReport:
    """What an audit came to."""

    examined: Mapping[str, int]
    """Rows by what they are."""
    found: Mapping[FindingKind, Found]
    """Only what was found, in the order of `FindingKind`."""

    @property
    def violations(self) -> int:
        """How many findings break a promise."""
        return sum(found.count for kind, found in self.found.items() if kind not in WARNINGS)

    @property
    def warnings(self) -> int:
        """How many findings do not."""
        return sum(found.count for kind, found in self.found.items() if kind in WARNINGS)


class AuditUseCase:
    """Judges a store as it is, while others work on it."""

    def __init__(
        self, *, audit: ActivityAudit, options: AuditOptions, observe: Callable[[Mapping[str, int]], None]
    ) -> None:
        self._audit = audit
        self._options = options
        self._observe = observe

    def run(self) -> AuditReport:
        """Look through everything; `observe` hears after each part how much that was. Raises StoreError."""
        examined: dict[str, int] = {}
        counts: dict[FindingKind, int] = {}
        examples: dict[FindingKind, list[Finding]] = {}
        for part in self._parts():
            examined[part.what] = examined.get(part.what, 0) + part.rows
            for finding in part.findings:
                counts[finding.kind] = counts.get(finding.kind, 0) + 1
                kept = examples.setdefault(finding.kind, [])
                if len(kept) < self._options.examples_max:
                    kept.append(finding)
            self._observe(examined)
        return AuditReport(
            examined=examined,
            found={
                kind: Found(count=counts[kind], examples=tuple(examples[kind]))
                for kind in FindingKind
                if kind in counts
            },
        )

    def _parts(self) -> Iterator[Examined]:
        now = self._audit.clock.read()
        retention = self._options.outbox_retention
        return self._audit.examine(
            AuditTerms(
                overdue_before=now - OVERDUE_THRESHOLDS * self._options.inactivity_threshold,
                rows_kept_since=now - ROWS_KEPT_FOR,
                events_kept_for=None if retention is None else max(retention - RETENTION_MARGIN, timedelta(0)),
            )
        )
