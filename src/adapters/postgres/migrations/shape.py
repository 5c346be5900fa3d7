"""The shape that version 0001 gives new tables and asks of tables that exist already (specification §6)."""

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from adapters.postgres.migrations.catalog import Column, Index, qualified

_TIMESTAMP: Final = "timestamp with time zone"

# Not citext, enums, domains or character(n): the partial indexes and the statements compare `status` as text.
_PLAIN_TYPES: Final = {"text": ("text", "character varying")}
# The longest status, `Inactive`, must fit.
_STATUS_LENGTH_MIN: Final = 8
# A status column of type text or character varying gives one of these predicates.
_ACTIVE_PREDICATES: Final = ("(status = 'Active'::text)", "((status)::text = 'Active'::text)")


@frozen(kw_only=True)
class ExpectedTable:
    """A table and the types of its columns by name."""

    name: str
    required: Mapping[str, str]
    addable: Mapping[str, str] = field(factory=dict)  # nullable ones that an existing table may lack
    duration_check: str | None = None
    key: str = "id"


@frozen(kw_only=True)
class ExpectedIndex:
    """An index over some of the rows of a table."""

    name: str
    table: str
    columns: tuple[str, ...]  # as PostgreSQL writes them
    predicate: str = "status = 'Active'"
    stored_predicates: tuple[str, ...] = _ACTIVE_PREDICATES  # as PostgreSQL writes it
    unique: bool = False
    exact: bool = False  # whether no other columns after the leading one will do

    @property
    def statement(self) -> str:
        """The statement that builds it while the table is in use."""
        unique = "unique " if self.unique else ""
        return (
            f"create {unique}index concurrently {self.name}\n"
            f"    on {qualified(self.table)} ({', '.join(self.columns)}) where {self.predicate}"
        )

    @property
    def demand(self) -> str:
        """What an index of this name has to be."""
        if self.exact:
            return f"must be on ({', '.join(self.columns)}) where {self.predicate}"
        return f"must lead with {self.columns[0]} and cover the rows where {self.predicate}"

    def equals(self, index: Index) -> bool:
        """Whether the index has exactly this shape."""
        return self.is_served_by(index) and index.columns == self.columns and index.unique == self.unique

    def is_served_by(self, index: Index) -> bool:
        """Whether the index, of another shape perhaps, finds the rows by the leading column in order."""
        leading = len(self.columns) if self.exact else 1
        return (
            index.table == self.table
            and index.ascending_btree
            and index.columns[:leading] == self.columns[:leading]
            and index.predicate in self.stored_predicates
        )


SESSIONS: Final = ExpectedTable(
    name="sessions",
    required={
        "id": "uuid",
        "anonymous_id": "uuid",
        "status": "text",
        "created_at": _TIMESTAMP,
        "last_activity_at": _TIMESTAMP,
    },
    addable={"user_id": "uuid", "ended_at": _TIMESTAMP, "duration": "interval"},
    duration_check="chk_sessions_duration_nonneg",
)

PROPERTY_OBJECT_VIEWS: Final = ExpectedTable(
    name="property_object_views",
    required={
        "id": "uuid",
        "property_object_id": "uuid",
        "session_id": "uuid",
        "anonymous_id": "uuid",
        "view_source": "text",
        "status": "text",
        "created_at": _TIMESTAMP,
        "last_activity_at": _TIMESTAMP,
    },
    addable={"filter_snapshot": "jsonb", "ended_at": _TIMESTAMP, "duration": "interval"},
    duration_check="chk_property_object_views_duration_nonneg",
)

OUTBOX: Final = ExpectedTable(
    name="outbox",
    required={
        "id": "uuid",
        "aggregate_type": "text",
        "aggregate_id": "uuid",
        "event_type": "text",
        "contract_version": "integer",
        "topic": "text",
        "payload": "jsonb",
        "correlation_id": "uuid",
        "trace_parent": "text",
        "occurred_at": _TIMESTAMP,
        "published_at": _TIMESTAMP,
    },
)

TABLES: Final = (SESSIONS, PROPERTY_OBJECT_VIEWS, OUTBOX)

INDEXES: Final = (
    ExpectedIndex(name="ix_sessions_active_last_activity", table=SESSIONS.name, columns=("last_activity_at", "id")),
    ExpectedIndex(
        name="ix_property_object_views_active_last_activity",
        table=PROPERTY_OBJECT_VIEWS.name,
        columns=("last_activity_at", "id"),
    ),
    ExpectedIndex(
        name="ix_property_object_views_active_session", table=PROPERTY_OBJECT_VIEWS.name, columns=("session_id",)
    ),
)

ONE_ACTIVE_SESSION: Final = ExpectedIndex(
    name="ux_sessions_active_anonymous_id", table=SESSIONS.name, columns=("anonymous_id",), unique=True
)

# What a publisher of ours needs beyond version 0001 (`delivery.py`).
OUTBOX_DELIVERY: Final = ExpectedTable(
    name=OUTBOX.name,
    required={},
    addable={
        "refusals": "integer",
        "next_attempt_at": _TIMESTAMP,
        "cause": "text",
        "dead_at": _TIMESTAMP,
    },
)

OUTBOX_SLICES: Final = ExpectedTable(
    name="outbox_slices",
    required={"slice": "smallint", "lease": "uuid", "leased_until": _TIMESTAMP},
    key="slice",
)

OUTBOX_INDEXES: Final = (
    ExpectedIndex(
        name="ix_outbox_pending",
        table=OUTBOX.name,
        columns=("((get_byte(uuid_send(id), 15) & 15))", "id"),
        predicate="published_at is null and dead_at is null",
        stored_predicates=("((published_at IS NULL) AND (dead_at IS NULL))",),
        exact=True,
    ),
    ExpectedIndex(
        name="ix_outbox_published",
        table=OUTBOX.name,
        columns=("published_at",),
        predicate="published_at is not null",
        stored_predicates=("(published_at IS NOT NULL)",),
        exact=True,
    ),
    ExpectedIndex(
        name="ix_outbox_dead",
        table=OUTBOX.name,
        columns=("id",),
        predicate="dead_at is not null and published_at is null",
        stored_predicates=("((dead_at IS NOT NULL) AND (published_at IS NULL))",),
        exact=True,
    ),
)

# What the closer and the publisher change: an event repeats some of these values, so the column must keep them to the
# last digit, and none may be too short for what is put into it.
_CHANGED: Final = ("ended_at", "duration", "lease", "leased_until", *OUTBOX_DELIVERY.addable)


def type_finding(name: str, column: Column, expected: str) -> str | None:
    """Say what is wrong with the type of an existing column, None if nothing is."""
    allowed = (expected,) if name in _CHANGED else _PLAIN_TYPES.get(expected, (expected,))
    if column.plain_type_name not in allowed or (name in _CHANGED and column.type_name != expected):
        return f"is {column.type_name}, must be {' or '.join(allowed)}"
    if name == "status" and _length(column) < _STATUS_LENGTH_MIN:
        return f"is {column.type_name}, must be at least {_STATUS_LENGTH_MIN} characters long"
    if column.generated and name in ("status", *_CHANGED):
        return "is a generated column, must be one that can be written"
    return None


def _length(column: Column) -> int:
    modifier = column.type_name.removeprefix(column.plain_type_name).strip("()")
    return int(modifier) if modifier else _STATUS_LENGTH_MIN
