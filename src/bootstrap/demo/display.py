"""Where the demo is shown: a live screen on a terminal, plain lines anywhere else."""

from types import TracebackType
from typing import Protocol, Self

import click
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bootstrap.demo.picture import Picture, Programme, in_seconds
from bootstrap.demo.run_history import Run


class Display(Protocol):
    """Shows one picture after the other while its `with` block lasts."""

    def show(self, picture: Picture) -> None:
        """Shows what there is to see now."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def display_for(programme: Programme) -> Display:
    """The display that stdout can carry."""
    console = Console()
    is_screen = console.file.isatty() and not console.is_dumb_terminal
    return LiveScreen(programme, console) if is_screen else PlainLines(programme)


class PlainLines:
    """A line a run."""

    def __init__(self, programme: Programme) -> None:
        self._programme = programme
        self._runs_told = 0

    def __enter__(self) -> Self:
        click.echo(self._programme.explanation())
        click.echo(f"{self._programme.invitation()} (schema user_activity)")
        click.echo(self._programme.way_out())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Lines stay as they are."""

    def show(self, picture: Picture) -> None:
        """Tells of the runs that have ended since the last picture."""
        for run in picture.runs:
            if run.number > self._runs_told:
                click.echo(self._line(run, picture))
                self._runs_told = run.number

    def _line(self, run: Run, picture: Picture) -> str:
        report, counts = run.report, picture.counts
        troubles = {"deferred": report.deferred_sessions, "failed": report.failed_items}
        closed = (
            f"closed {report.closed_sessions} sessions and {report.closed_views} views in {self._programme.took(run)}"
        )
        return "; ".join(
            [
                f"{run.started_at:%H:%M:%S} run {run.number} {report.outcome}: {closed}",
                *(f"{number} {trouble}" for trouble, number in troubles.items() if number),
                f"{run.left} left to close",
                f"Active now: {counts.active_sessions} sessions, {counts.active_views} views",
                f"{counts.inactive_sessions + counts.inactive_views} closed rows",
                f"{counts.events} events, {picture.arrived} arrived at the broker",
            ]
        )


class LiveScreen:
    """The whole terminal, drawn anew for each picture; what was there before comes back at the end."""

    def __init__(self, programme: Programme, console: Console) -> None:
        self._programme = programme
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, picture: Picture) -> None:
        """Draws the picture."""
        self._live.update(self._screen(picture), refresh=True)

    def _screen(self, picture: Picture) -> Layout:
        screen = Layout()
        screen.split_column(
            self._as_high_as_it_is(_title(picture), Text(self._programme.explanation(), style="dim"), ""),
            self._as_high_as_it_is(_standing(picture), ""),
            Layout(self._runs(picture), ratio=2),
            Layout(Text(" "), size=1),
            Layout(self._closings(picture), ratio=3),
            self._as_high_as_it_is("", Text(self._programme.invitation()), Text(self._programme.way_out(), "bold")),
        )
        return screen

    def _as_high_as_it_is(self, *parts: RenderableType) -> Layout:
        group = Group(*parts)
        return Layout(group, size=len(self._console.render_lines(group)))

    def _runs(self, picture: Picture) -> Table:
        table = _table(
            "run of the closer", ">sessions closed", ">views", ">deferred", ">failed", ">still stale", ">took"
        )
        for run in reversed(picture.runs):
            report = run.report
            table.add_row(
                f"{run.started_at:%H:%M:%S} {report.outcome}",
                str(report.closed_sessions),
                str(report.closed_views),
                str(report.deferred_sessions),
                str(report.failed_items),
                run.left,
                self._programme.took(run),
            )
        return table

    def _closings(self, picture: Picture) -> Table:
        table = _table("closed", "row", ">lasted", ">silent", "why", "event in the outbox")
        for closing in picture.closings:
            table.add_row(
                f"{closing.ended_at:%H:%M:%S}",
                f"{closing.kind} …{str(closing.id)[-6:]}",
                in_seconds(closing.duration),
                in_seconds(closing.lag),
                self._programme.reason(closing),
                # The only text that may be cut where the screen is narrow.
                Text(closing.event_type, no_wrap=True, overflow="ellipsis"),
            )
        return table


def _title(picture: Picture) -> Table:
    title = Table.grid(expand=True)
    title.add_column()
    title.add_column(justify="right")
    title.add_row(Text("activity-closer demo", "bold"), Text(f"{picture.now:%Y-%m-%d %H:%M:%S} UTC", "bold cyan"))
    return title


def _standing(picture: Picture) -> Table:
    counts = picture.counts
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column()
    deeds = [f"{number} {deed}" for deed, number in picture.tally.items()]
    rows = [
        ("schema user_activity", "Active", "Inactive", "what visitors did"),
        ("sessions", f"{counts.active_sessions}", f"{counts.inactive_sessions}", ", ".join(deeds[:2])),
        ("views", f"{counts.active_views}", f"{counts.inactive_views}", ", ".join(deeds[2:4])),
        ("events in the outbox", "", f"{counts.events}", ", ".join(deeds[4:])),
        ("events at the broker", "", f"{picture.arrived}", ""),
    ]
    for number, row in enumerate(rows):
        table.add_row(*row, style="" if number else "bold")
    return table


def _table(*headings: str) -> Table:
    """A table without a frame; a heading that begins with `>` is that of numbers. The last column gives way."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold cyan")
    for heading in headings:
        justify: JustifyMethod = "right" if heading.startswith(">") else "left"
        table.add_column(heading.removeprefix(">"), justify=justify, no_wrap=heading is not headings[-1])
    return table
