"""What the system catalogs say about the schema as it is now."""

from typing import Any, LiteralString

import psycopg
from attrs import frozen

SCHEMA = "user_activity"
VERSION_TABLE = "activity_closer_schema_version"


@frozen(kw_only=True)
class Column:
    """A column of an existing table."""

    type_name: str  # with its modifier: `character varying(20)`
    plain_type_name: str  # without it: `character varying`
    nullable: bool
    generated: bool


@frozen(kw_only=True)
class Index:
    """An existing index."""

    table: str
    definition: str
    columns: tuple[str, ...]  # key columns in order, as PostgreSQL writes them; an expression in parentheses
    predicate: str | None
    unique: bool
    valid: bool  # False: the rest of an interrupted build
    ascending_btree: bool


@frozen(kw_only=True)
class ForeignKey:
    """An existing foreign key of one column."""

    name: str
    delete_action: str  # the one-letter code of pg_constraint.confdeltype


_COLUMNS: LiteralString = """
    select attname, pg_catalog.format_type(atttypid, atttypmod), pg_catalog.format_type(atttypid, null),
           not attnotnull, attgenerated <> ''
      from pg_catalog.pg_attribute
     where attrelid = pg_catalog.to_regclass(%s) and attnum > 0 and not attisdropped"""

_INDEX: LiteralString = """
    select relation.relname, pg_catalog.pg_get_indexdef(index.indexrelid),
           array(select pg_catalog.pg_get_indexdef(index.indexrelid, place, false)
                   from pg_catalog.generate_series(1, index.indnkeyatts) as place
                  order by place),
           pg_catalog.pg_get_expr(index.indpred, index.indrelid), index.indisunique, index.indisvalid,
           method.amname = 'btree' and 0 = all (index.indoption::int2[])
      from pg_catalog.pg_index as index
      join pg_catalog.pg_class as relation on relation.oid = index.indrelid
      join pg_catalog.pg_class as named on named.oid = index.indexrelid
      join pg_catalog.pg_am as method on method.oid = named.relam
     where index.indexrelid = pg_catalog.to_regclass(%s)"""

# An index that may lag behind (deferrable) or that covers a part of the table identifies no row.
_UNIQUE_ON: LiteralString = """
    select exists (
        select from pg_catalog.pg_index as index
          join pg_catalog.pg_attribute as attribute
            on attribute.attrelid = index.indrelid and attribute.attnum = index.indkey[0] and attribute.attname = %s
         where index.indrelid = pg_catalog.to_regclass(%s) and index.indnkeyatts = 1
           and index.indisunique and index.indimmediate and index.indisvalid and index.indpred is null)"""

_FOREIGN_KEYS: LiteralString = """
    select foreign_key.conname, foreign_key.confdeltype::text
      from pg_catalog.pg_constraint as foreign_key
      join pg_catalog.pg_attribute as own on own.attrelid = foreign_key.conrelid and own.attname = %s
      join pg_catalog.pg_attribute as referenced
        on referenced.attrelid = foreign_key.confrelid and referenced.attname = 'id'
     where foreign_key.contype = 'f'
       and foreign_key.conrelid = pg_catalog.to_regclass(%s) and foreign_key.confrelid = pg_catalog.to_regclass(%s)
       and foreign_key.conkey = array[own.attnum] and foreign_key.confkey = array[referenced.attnum]
     order by foreign_key.conname"""

_REPEATED_ACTIVE_ANONYMOUS_IDS: LiteralString = """
    select count(*)
      from (select from user_activity.sessions
             where status = 'Active' and anonymous_id is not null
             group by anonymous_id
            having count(*) > 1) as repeated"""

_MISSING_SLICES: LiteralString = """
    select count(*)
      from pg_catalog.generate_series(0, 15) as wanted
     where wanted not in (select slice from user_activity.outbox_slices)"""


class Catalog:
    """Questions to the catalogs, each answered by a transaction of its own: no answer leaves a lock behind."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        assert connection.autocommit
        self._connection = connection

    def schema_exists(self) -> bool:
        """Whether the schema is there."""
        return bool(self._value("select pg_catalog.to_regnamespace(%s) is not null", SCHEMA))

    def version(self) -> str | None:
        """The version that the schema is at; None where no migration has finished."""
        if self.relation_kind(VERSION_TABLE) is None:
            return None
        version: str | None = self._value("select min(version_num) from user_activity.activity_closer_schema_version")
        return version

    def relation_kind(self, name: str) -> str | None:
        """pg_class.relkind of what bears the name in the schema (`r`: an ordinary table), None for nothing."""
        kind: str | None = self._value(
            "select relkind::text from pg_catalog.pg_class where oid = pg_catalog.to_regclass(%s)", qualified(name)
        )
        return kind

    def columns(self, table: str) -> dict[str, Column]:
        """The columns of a table by name."""
        return {
            name: Column(type_name=full, plain_type_name=plain, nullable=nullable, generated=generated)
            for name, full, plain, nullable, generated in self._rows(_COLUMNS, qualified(table))
        }

    def index(self, name: str) -> Index | None:
        """The index of this name."""
        for table, definition, columns, predicate, unique, valid, ascending_btree in self._rows(
            _INDEX, qualified(name)
        ):
            return Index(
                table=table,
                definition=definition,
                columns=tuple(columns),
                predicate=predicate,
                unique=unique,
                valid=valid,
                ascending_btree=ascending_btree,
            )
        return None

    def is_unique_on(self, table: str, column: str) -> bool:
        """Whether the column alone identifies a row of the table."""
        return bool(self._value(_UNIQUE_ON, column, qualified(table)))

    def has_check(self, table: str, name: str) -> bool:
        """Whether the table has a check constraint of this name."""
        question: LiteralString = (
            "select exists (select from pg_catalog.pg_constraint"
            " where contype = 'c' and conrelid = pg_catalog.to_regclass(%s) and conname = %s)"
        )
        return bool(self._value(question, qualified(table), name))

    def foreign_keys(self, table: str, column: str, referenced_table: str) -> list[ForeignKey]:
        """The foreign keys from this column to the `id` of the other table, whatever their names."""
        rows = self._rows(_FOREIGN_KEYS, column, qualified(table), qualified(referenced_table))
        return [ForeignKey(name=name, delete_action=action) for name, action in rows]

    def repeated_active_anonymous_id_count(self) -> int:
        """How many visitors have more than one Active session. A number only: the ids are personal data."""
        return int(self._value(_REPEATED_ACTIVE_ANONYMOUS_IDS))

    def missing_slice_count(self) -> int:
        """How many of the sixteen slices of the outbox have no row to lease them by."""
        return int(self._value(_MISSING_SLICES))

    def _rows(self, question: LiteralString, *parameters: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(question, parameters).fetchall()

    def _value(self, question: LiteralString, *parameters: str) -> Any:
        rows = self._rows(question, *parameters)
        return rows[0][0] if rows else None


def qualified(name: str) -> str:
    """The name with its schema."""
    return f"{SCHEMA}.{name}"
