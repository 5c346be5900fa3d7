"""The audit's use case: what it asks to be judged by, and what it makes of the findings."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from adapters.in_memory.clock import SettableClock
from application.audit_activity import AuditOptions, AuditReport, AuditUseCase
from application.ports.activity_audit import AuditTerms, Examined, Finding, FindingKind, RowKind

WARNING = FindingKind.ENDED_BEFORE_LAST_ACTIVITY
VIOLATION = FindingKind.WRONG_DURATION
OTHER_VIOLATION = FindingKind.ACTIVE_VIEW_OF_INACTIVE_SESSION


class Stored:
    """A store of which it is known what an audit finds, part by part."""

    def __init__(self, *parts: Examined) -> None:
        self.clock = SettableClock()
        self.terms: AuditTerms | None = None
        self._parts = parts

    def examine(self, terms: AuditTerms) -> Iterator[Examined]:
        self.terms = terms
        yield from self._parts


def part(what: str, rows: int, *kinds: FindingKind) -> Examined:
    """A part with findings, told apart by their ids."""
    found = [Finding(kind=kind, row_kind=RowKind.SESSION, row_id=UUID(int=number)) for number, kind in enumerate(kinds)]
    return Examined(what=what, rows=rows, findings=found)


def audit(
    stored: Stored, *, retention: timedelta | None = timedelta(days=7), examples_max: int = 2
) -> tuple[AuditReport, Sequence[Mapping[str, int]]]:
    """The report, and what was said on the way."""
    said: list[Mapping[str, int]] = []
    options = AuditOptions(
        inactivity_threshold=timedelta(minutes=10), outbox_retention=retention, examples_max=examples_max
    )
    report = AuditUseCase(audit=stored, options=options, observe=lambda examined: said.append(dict(examined))).run()
    return report, said


def test_all_are_counted_and_the_first_are_kept() -> None:
    """However many findings there are, a few of each kind are kept; kinds have one order, whatever was found first."""
    stored = Stored(part("sessions", 3, *[VIOLATION] * 3), part("views", 9, *[VIOLATION] * 2, OTHER_VIOLATION))
    report, _ = audit(stored)
    assert [(kind, found.count, len(found.examples)) for kind, found in report.found.items()] == [
        (OTHER_VIOLATION, 1, 1),
        (VIOLATION, 5, 2),
    ]
    assert [finding.row_id.int for finding in report.found[VIOLATION].examples] == [0, 1]


def test_none_need_be_kept() -> None:
    """Without examples there is the number."""
    report, _ = audit(Stored(part("sessions", 3, VIOLATION)), examples_max=0)
    assert (report.found[VIOLATION].count, report.found[VIOLATION].examples) == (1, ())
    with pytest.raises(ValueError, match="examples_max"):
        audit(Stored(), examples_max=-1)


def test_a_clock_that_ran_ahead_is_a_warning() -> None:
    """No promise of the closer is broken by it; everything else is a violation."""
    report, _ = audit(Stored(part("sessions", 1, *FindingKind, WARNING)))
    assert (report.violations, report.warnings) == (len(FindingKind) - 1, 2)


def test_what_has_been_looked_through_is_said_after_each_part() -> None:
    """By what it is, added up."""
    report, said = audit(Stored(part("sessions", 3), part("sessions", 2), part("views", 7)))
    assert said == [{"sessions": 3}, {"sessions": 5}, {"sessions": 5, "views": 7}]
    assert report.examined == said[-1]
    assert not report.found


def test_terms_are_by_the_stores_time() -> None:
    """Specification §9: 2 x threshold. Rows are kept for twelve months, events for the retention less a minute."""
    stored = Stored()
    audit(stored)
    now = stored.clock.read()
    assert stored.terms == AuditTerms(
        overdue_before=now - timedelta(minutes=20),
        rows_kept_since=now - timedelta(days=365),
        events_kept_for=timedelta(days=7) - timedelta(minutes=1),
    )


@pytest.mark.parametrize(
    ("retention", "kept_for"),
    [
        (None, None),
        (timedelta(0), timedelta(0)),
        (timedelta(seconds=59), timedelta(0)),
        (timedelta(seconds=61), timedelta(seconds=1)),
    ],
)
def test_for_how_long_events_are_looked_for(retention: timedelta | None, kept_for: timedelta | None) -> None:
    """Never where somebody else empties the outbox, and never for longer than they are kept."""
    stored = Stored()
    audit(stored, retention=retention)
    assert stored.terms is not None
    assert stored.terms.events_kept_for == kept_for
