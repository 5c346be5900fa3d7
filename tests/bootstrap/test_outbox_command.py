"""`activity-closer outbox` over an outbox in memory: what is shown, what is changed, and the exit codes."""

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from click.testing import CliRunner, Result

from adapters.in_memory.store import InMemoryActivityStore, InMemoryOutboxStore
from application.contracts.deliveries import a_message
from application.ports.deliveries import Refused
from application.ports.outbox import OutboxMessage
from application.ports.outbox_upkeep import OutboxStatus
from bootstrap.cli import activity_closer
from bootstrap.cli.dead_events import PAGE_LIMIT
from bootstrap.cli.outbox import REMOVAL_LIMIT
from bootstrap.exit_codes import ExitCode

CAUSE = "msg_size_too_large"
_OPEN: list[InMemoryOutboxStore] = []
"""The outbox of the running test, where the factory finds it."""


def opened(_database_url: str | None) -> InMemoryOutboxStore:
    """What `outbox_store` names."""
    return _OPEN[-1]


class Outbox:
    """An outbox to which things have happened."""

    def __init__(self) -> None:
        self.store = InMemoryActivityStore()
        self.opened = self.store.outbox_store()

    def append(self, count: int) -> list[OutboxMessage]:
        messages = [a_message(self.store.clock.read()) for _ in range(count)]
        with self.store.begin() as unit_of_work:
            unit_of_work.outbox.append(messages)
            unit_of_work.commit()
        return sorted(messages, key=lambda message: message.id)

    def refuse(self, messages: Sequence[OutboxMessage], *, retry_after: timedelta | None = None) -> None:
        """They are refused, and dead unless they are to be tried again."""
        now = self.store.clock.read()
        next_attempt_at = None if retry_after is None else now + retry_after
        with self.opened.begin() as unit_of_work:
            refused = [
                Refused(message_id=one.id, refusals=10, cause=CAUSE, next_attempt_at=next_attempt_at)
                for one in messages
            ]
            unit_of_work.deliveries.record_refused(refused, now)
            unit_of_work.commit()

    def append_dead(self, count: int) -> list[OutboxMessage]:
        messages = self.append(count)
        self.refuse(messages)
        return messages

    def status(self) -> OutboxStatus:
        with self.opened.begin() as unit_of_work:
            return unit_of_work.upkeep.status()

    def dead_ids(self) -> list[UUID]:
        with self.opened.begin() as unit_of_work:
            return [one.message.id for one in unit_of_work.upkeep.dead(None, 10_000)]


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    outbox = Outbox()
    _OPEN.append(outbox.opened)
    yield outbox
    _OPEN.pop()


def run(*arguments: str, answer: str | None = None, **environment: str) -> Result:
    variables = {"OUTBOX_STORE": f"{__name__}:opened", **environment}
    runner = CliRunner(env={f"ACTIVITY_CLOSER_{name}": value for name, value in variables.items()})
    return runner.invoke(activity_closer, ["outbox", *arguments], input=answer)


def result_of(*arguments: str, exit_code: ExitCode = ExitCode.SUCCESS, **environment: str) -> Any:
    """The JSON that a command prints."""
    ended = run(*arguments, "--output", "json", **environment)
    assert ended.exit_code == exit_code, ended.output
    return json.loads(ended.stdout)


def assert_nothing_personal_in(text: str, messages: Sequence[OutboxMessage]) -> None:
    for message in messages:
        payload = json.loads(message.payload)
        assert payload["anonymousId"] not in text
        assert "anonymousId" not in text


def test_the_status_of_an_outbox_without_dead_events(outbox: Outbox) -> None:
    """Pending events, those of them that wait, and how old the oldest is by the store's clock; 0."""
    outbox.append(3)
    outbox.store.clock.move(timedelta(minutes=61))
    outbox.refuse(outbox.append(2), retry_after=timedelta(seconds=4))
    assert result_of("status") == {
        "pendingEvents": 5,
        "waitingEvents": 2,
        "oldestPendingAgeSeconds": 3660,
        "deadEvents": {},
    }
    lines = run("status").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["pending:", "5"],
        ["waiting:", "2"],
        ["oldest", "pending:", "1h1m"],
        ["dead:", "0"],
    ]


def test_an_empty_outbox_has_no_oldest_event(outbox: Outbox) -> None:
    """Nothing pending has no age."""
    assert outbox.status().pending == 0
    assert result_of("status")["oldestPendingAgeSeconds"] is None
    assert "none" in run("status").stdout


def test_dead_events_are_findings(outbox: Outbox) -> None:
    """Specification §10: with dead events, which are counted by their causes, the exit code is 3."""
    outbox.append_dead(2)
    assert result_of("status", exit_code=ExitCode.FINDINGS)["deadEvents"] == {CAUSE: 2}
    assert f"{CAUSE}: 2" in run("status").stdout


def test_the_list_has_every_dead_event_and_no_payload(outbox: Outbox) -> None:
    """Page by page, in the order of ids, with what an operator decides by; payloads hold personal data."""
    outbox.append(3)
    dead = outbox.append_dead(PAGE_LIMIT + 2)
    lines = run("dead", "list").stdout.splitlines()
    assert [UUID(line.split()[0]) for line in lines] == [message.id for message in dead]
    for part in (CAUSE, " 10 ", dead[0].topic, dead[0].event_type, str(dead[0].aggregate_id), "2026-12-01T12:00:00Z"):
        assert part in lines[0]
    printed = run("dead", "list", "--output", "json").stdout
    entries = [json.loads(line) for line in printed.splitlines()]
    assert len(entries) == PAGE_LIMIT + 2
    assert entries[0].items() >= {"id": str(dead[0].id), "refusals": 10, "cause": CAUSE}.items()
    assert_nothing_personal_in("\n".join(lines) + printed, dead)


def test_one_event_is_shown_with_its_payload_only_when_asked(outbox: Outbox) -> None:
    """All but the payload, unless `--payload` is given, whose help says what it may hold."""
    [event] = outbox.append_dead(1)
    shown = run("dead", "show", str(event.id))
    assert shown.exit_code == 0
    assert str(event.correlation_id) in shown.stdout
    assert_nothing_personal_in(shown.stdout, [event])
    assert "payload" not in result_of("dead", "show", str(event.id))
    assert event.payload in run("dead", "show", str(event.id), "--payload").stdout
    assert result_of("dead", "show", str(event.id), "--payload")["payload"] == json.loads(event.payload)
    assert "may hold personal data" in " ".join(run("dead", "show", "--help").stdout.split())


def test_named_events_are_sent_again(outbox: Outbox) -> None:
    """Those that are named are pending again, the others stay dead."""
    first, second, third = outbox.append_dead(3)
    assert result_of("dead", "retry", str(third.id), str(first.id), str(third.id)) == {"retriedEvents": 2}
    assert outbox.dead_ids() == [second.id]
    assert outbox.status().pending == 2


def test_all_events_are_sent_again(outbox: Outbox) -> None:
    """However many pages they are, each in a transaction of its own."""
    outbox.append_dead(PAGE_LIMIT * 2 + 1)
    assert run("dead", "retry", "--all").stdout == f"to be sent again: {PAGE_LIMIT * 2 + 1}\n"
    assert outbox.dead_ids() == []
    assert result_of("dead", "retry", "--all") == {"retriedEvents": 0}


@pytest.mark.parametrize("arguments", [["retry"], ["discard", "--yes"]])
def test_unknown_ids_are_named_and_the_others_are_dealt_with(outbox: Outbox, arguments: list[str]) -> None:
    """An id that no dead event has is no reason to do nothing; it is named, and the exit code is 3."""
    [dead] = outbox.append_dead(1)
    [pending] = outbox.append(1)
    ended = run("dead", *arguments, str(dead.id), str(pending.id), str(UUID(int=1)))
    assert ended.exit_code == ExitCode.FINDINGS
    assert ended.stdout.endswith(": 1\n")
    assert ended.stderr.splitlines() == [
        f"no dead event has the id {unknown}" for unknown in sorted([UUID(int=1), pending.id])
    ]
    assert outbox.dead_ids() == []


def test_an_event_that_is_not_dead_cannot_be_shown(outbox: Outbox) -> None:
    """The id is named, 3; nothing is on stdout."""
    [pending] = outbox.append(1)
    ended = run("dead", "show", str(pending.id))
    assert (ended.exit_code, ended.stdout) == (ExitCode.FINDINGS, "")
    assert ended.stderr == f"no dead event has the id {pending.id}\n"


def test_discarded_events_are_gone(outbox: Outbox) -> None:
    """Confirmed on the command line, dead events are removed, and nothing else is."""
    first, second = outbox.append_dead(2)
    outbox.append(4)
    assert result_of("dead", "discard", "--yes", str(first.id)) == {"discardedEvents": 1}
    assert outbox.dead_ids() == [second.id]
    assert run("dead", "discard", "--yes", "--all").stdout == "discarded: 1\n"
    assert (outbox.dead_ids(), outbox.status().pending) == ([], 4)


def test_nothing_is_discarded_where_nobody_can_be_asked(outbox: Outbox) -> None:
    """Without a terminal and without `--yes`: wrong usage, whatever stdin holds."""
    outbox.append_dead(2)
    ended = run("dead", "discard", "--all", answer="y\n")
    assert ended.exit_code == ExitCode.WRONG_USAGE
    assert "--yes" in ended.stderr
    assert len(outbox.dead_ids()) == 2


def two_dead(_database_url: str | None) -> InMemoryOutboxStore:
    """Make an outbox for a process of its own."""
    outbox = Outbox()
    outbox.append_dead(2)
    return outbox.opened


@pytest.mark.parametrize(("answer", "discarded"), [("y", 2), ("n", 0), ("", 0)])
def test_somebody_at_a_terminal_is_asked(answer: str, discarded: int) -> None:
    """How many events it is about is in the question, which is on stderr; anything but yes is no."""
    terminal, stdin = os.openpty()
    os.write(terminal, f"{answer}\n".encode())
    ended = subprocess.run(
        [Path(sysconfig.get_path("scripts")) / "activity-closer", "outbox", "dead", "discard", "--all"],
        env={"ACTIVITY_CLOSER_OUTBOX_STORE": f"{__name__}:two_dead", "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    os.close(stdin)
    os.close(terminal)
    assert (ended.returncode, ended.stdout.strip()) == (0, f"discarded: {discarded}")
    assert "Remove 2 dead events for good?" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["retry"],
        ["discard", "--yes"],
        ["retry", "--all", str(UUID(int=1))],
        ["discard", "--yes", "--all", str(UUID(int=1))],
        ["retry", "no-id"],
        ["show"],
    ],
)
def test_events_are_named_or_all_of_them_are_meant(outbox: Outbox, arguments: list[str]) -> None:
    """Neither ids nor `--all`, both, or what is no id: wrong usage, and nothing is changed."""
    dead = outbox.append_dead(2)
    assert run("dead", *arguments).exit_code == ExitCode.WRONG_USAGE
    assert outbox.dead_ids() == [message.id for message in dead]


def test_old_events_are_removed_where_a_connector_delivers(outbox: Outbox) -> None:
    """What occurred longer ago than asked is removed, in as many steps as it takes; the rest stays."""
    outbox.append(REMOVAL_LIMIT + 1)
    outbox.store.clock.move(timedelta(days=7, seconds=1))
    young = outbox.append(3)
    assert result_of("prune", "--older-than", "7d", DELIVERY="debezium") == {"removedEvents": REMOVAL_LIMIT + 1}
    assert {message.id for message in outbox.store.messages()} == {message.id for message in young}
    assert run("prune", "--older-than", "0s", DELIVERY="debezium").stdout == "removed: 0\n"


def test_a_publishers_outbox_is_not_pruned(outbox: Outbox) -> None:
    """What it has not delivered yet would be lost: refused, 78, with the reason."""
    outbox.append(3)
    ended = run("prune", "--older-than", "0s")
    assert (ended.exit_code, ended.stdout) == (ExitCode.WRONG_CONFIGURATION, "")
    assert "delivery is publisher" in ended.stderr
    assert outbox.status().pending == 3


@pytest.mark.parametrize("arguments", [["status"], ["dead", "list"], ["dead", "retry", "--all"]])
def test_a_connectors_outbox_has_no_states(outbox: Outbox, arguments: list[str]) -> None:
    """Debezium leaves no mark on an event: nothing is said to be pending or dead; 78, with the reason."""
    outbox.append(3)
    ended = run(*arguments, DELIVERY="debezium")
    assert (ended.exit_code, ended.stdout) == (ExitCode.WRONG_CONFIGURATION, "")
    assert "delivery is debezium" in ended.stderr


@pytest.mark.parametrize("older_than", ["7", "-1d", "a week"])
def test_a_wrong_age_is_wrong_usage(outbox: Outbox, older_than: str) -> None:
    """It is an argument, not a setting: 2, with the forms of a duration."""
    outbox.append(1)
    ended = run("prune", "--older-than", older_than, DELIVERY="debezium")
    assert ended.exit_code == ExitCode.WRONG_USAGE
    assert "12m, 90s, 1m30s" in " ".join(ended.stderr.split())
    assert len(outbox.store.messages()) == 1


def test_an_outbox_that_cannot_be_reached_is_69() -> None:
    """Specification §10: one line, without a traceback."""
    variables = {"ACTIVITY_CLOSER_DATABASE_URL": "host=127.0.0.1 port=1 password=geheim"}
    ended = CliRunner(env=variables).invoke(activity_closer, ["outbox", "status"])
    assert ended.exit_code == ExitCode.UNAVAILABLE
    assert ended.stderr.startswith("Error: the database is unavailable: ")
    assert "geheim" not in ended.output
