"""Observation for those who want none, and for those who look at it afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TypeVar

from application.ports.publish_observation import PublishOccurrence
from application.ports.run_observation import Occurrence

Kind = TypeVar("Kind", bound=Occurrence)
PublishKind = TypeVar("PublishKind", bound=PublishOccurrence)


class NoObservation:
    """Sees nothing."""

    def record(self, occurrence: Occurrence) -> None:
        """Forgets it."""

    def span(self, name: str, attributes: Mapping[str, str | int]) -> nullcontext[None]:
        """No span."""
        return nullcontext()

    def trace_parent(self) -> None:
        """No trace."""
        return


class RecordingObservation:
    """Remembers what happened, in order."""

    def __init__(self) -> None:
        self.occurrences: list[Occurrence] = []
        self.spans: list[tuple[str, Mapping[str, str | int]]] = []

    def record(self, occurrence: Occurrence) -> None:
        """Remembers it."""
        self.occurrences.append(occurrence)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str | int]) -> Iterator[None]:
        """Remembers that the span was entered."""
        self.spans.append((name, attributes))
        yield

    def trace_parent(self) -> str | None:
        """A fixed context, so that it can be found again in the outbox."""
        return "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    def of(self, kind: type[Kind]) -> list[Kind]:
        """All occurrences of a kind, in order."""
        return [occurrence for occurrence in self.occurrences if isinstance(occurrence, kind)]


class RecordingPublishObservation:
    """Remembers what happened in publishing, in order."""

    def __init__(self) -> None:
        self.occurrences: list[PublishOccurrence] = []

    def record(self, occurrence: PublishOccurrence) -> None:
        """Remembers it."""
        self.occurrences.append(occurrence)

    def of(self, kind: type[PublishKind]) -> list[PublishKind]:
        """All occurrences of a kind, in order."""
        return [occurrence for occurrence in self.occurrences if isinstance(occurrence, kind)]
