"""A live tree of the run, redrawn in place on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, TextIO

from msgspec import Struct, field

from pz_core.contract.events import (
    Event,
    MergeKeyDuplicatesDetected,
    NodeCompleted,
    NodeProgress,
    NodeStarted,
    NodeWarning,
    RetryScheduled,
    RunCompleted,
    RunStarted,
    SourceDriftDetected,
)
from pz_core.render import wording
from pz_core.render.text import clean, clean_lines, count, elapsed, rate

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

#: Node kind -> heading, in the order in which groups stand.
_GROUPS: dict[str, str] = {"SourceLoad": "sources", "Pipeline": "pipelines", "Check": "checks", "SinkWrite": "sinks"}
_STYLES = {"success": "green", "failed": "red", "skipped": "yellow", "running": "bright_black"}
_GLYPHS = {**wording.MARKS, "running": ".."}
#: What is shown first where not all fits: what runs, then what went wrong, then what was finished last.
_URGENCY = {"running": 0, "failed": 1, "success": 2, "skipped": 3}
_REFRESH_PER_SECOND = 8
#: Lines kept free for the heading, the footer and the cursor.
_FRAME = 3
_NAME_WIDTH = 44


class _Row(Struct):
    kind: str
    name: str
    since: float
    status: str = "running"
    rows: int = 0
    duration_ms: int | None = None
    label: str = ""
    order: int = 0
    notes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def lines(self) -> int:
        return 1 + len(self.notes)


class Live:
    """Draws groups of nodes (sources, pipelines, checks, sinks) in place, at most eight times a second.

    A tree that is taller than the terminal shows what runs and what failed first, and counts the rest.

    Args:
        stream: the terminal; stdout by default.
        console: a console of rich's instead, for tests.
        clock: seconds that only grow.
        auto_refresh: whether a thread redraws; without it the view is drawn by :meth:`close` only.
    """

    name: ClassVar[str] = "live"

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        auto_refresh: bool = True,
    ) -> None:
        from rich.console import Console
        from rich.live import Live as Screen

        file = stream if stream is not None else sys.stdout
        self._console = console or Console(file=file, highlight=False, emoji=False)
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[str, _Row] = {}
        self._title = ""
        self._total = 0
        self._finished = 0
        self._began = clock()
        self._status: str | None = None
        self._duration_ms: int | None = None
        self._screen = Screen(
            console=self._console,
            get_renderable=self.frame,
            auto_refresh=auto_refresh,
            refresh_per_second=_REFRESH_PER_SECOND,
            transient=False,
            # What others print must go where they sent it: stderr stays stderr.
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._started = False

    # --- events --------------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Take one event; drawing happens on its own time."""
        with self._lock:
            self._take(event)
        if not self._started and self._status is None:
            self._started = True
            self._screen.start()

    def close(self) -> None:
        """Draw the last state and leave it on the screen."""
        if self._started:
            self._started = False
            self._screen.stop()

    def _take(self, event: Event) -> None:
        if self._status is not None:
            return  # what comes after run_completed is told by the summary
        if isinstance(event, RunStarted):
            self._title = clean(f"{event.project_name} {event.run_id}")
            self._total = event.node_count
            self._began = self._clock()
        elif isinstance(event, NodeStarted):
            self._rows[event.node_id] = _Row(event.kind, clean(event.name), self._clock())
        elif isinstance(event, NodeProgress):
            if (row := self._rows.get(event.node_id)) is not None:
                row.rows = event.rows
        elif isinstance(event, RetryScheduled):
            self._note(event.node_id, "retry", "yellow", wording.aside(event) or "")
        elif isinstance(event, (NodeWarning, MergeKeyDuplicatesDetected, SourceDriftDetected)):
            self._note(event.node_id, "warning", "yellow", wording.warning(event) or "")
        elif isinstance(event, NodeCompleted):
            self._complete(event)
        elif isinstance(event, RunCompleted):
            self._status = event.status
            self._duration_ms = event.duration_ms

    def _note(self, node_id: str, slot: str, style: str, text: str) -> None:
        row = self._rows.get(node_id)
        if row is not None and text:
            row.notes[slot] = (style, text)

    def _complete(self, event: NodeCompleted) -> None:
        row = self._rows.setdefault(event.node_id, _Row(event.kind, clean(event.name), self._clock()))
        self._finished += 1
        row.status, row.rows, row.duration_ms = event.status, event.rows, event.duration_ms
        row.label, row.order = wording.provenance(event), self._finished
        row.notes.pop("retry", None)
        if event.status == "failed":
            # The first line only: the tree keeps its height, and the whole message follows on stderr.
            first = next(iter(clean_lines(event.error_message or "")), "failed")
            self._note(event.node_id, "error", "red", f"{event.error_code}: {first}" if event.error_code else first)
        hint = wording.bottleneck(event)
        if hint:
            self._note(event.node_id, "hint", "bright_black", hint)
        left = wording.delivery(event)
        if left:
            self._note(event.node_id, "delivery", "yellow", left)

    # --- drawing -------------------------------------------------------------------------------------------------

    def frame(self) -> RenderableType:
        """The view as it is now, cut to the size that the terminal has now."""
        from rich.text import Text

        width, height = self._console.size
        with self._lock:
            lines = self._frame_lines(max(1, height - _FRAME))
        # One column stays free: a line that fills the last one makes some terminals wrap, and the redraw would drift.
        for line in lines:
            line.truncate(max(8, width - 1), overflow="ellipsis")
        made = Text("\n", end="").join(lines)
        made.no_wrap = True
        made.overflow = "crop"
        return made

    def _frame_lines(self, room: int) -> list[Text]:
        from rich.text import Text

        groups = [
            (title, sorted((r for r in self._rows.values() if r.kind == kind), key=lambda r: r.name))
            for kind, title in _GROUPS.items()
        ]
        groups = [(title, rows) for title, rows in groups if rows]
        headed = room >= 3 * len(groups)
        if not headed:  # too low for headings: one list, one count of the rest
            groups = [("", [row for _, rows in groups for row in rows])]
        shown = self._chosen(groups, room)
        lines = [Text(self._title, style="bold")]
        for title, rows in groups:
            if headed:
                lines.append(Text(title, style="cyan"))
            for row in rows:
                if id(row) in shown:
                    lines.extend(self._row_lines(row))
            rest = [row for row in rows if id(row) not in shown]
            if rest:
                lines.append(Text(f"  … {_tally(rest)}", style="bright_black"))
        lines.append(self._footer())
        return lines

    def _chosen(self, groups: list[tuple[str, list[_Row]]], room: int) -> set[int]:
        """The rows that get lines of their own. All of them, if all fit."""
        rows = [row for _, group in groups for row in group]
        if len(groups) + sum(row.lines() for row in rows) <= room:
            return {id(row) for row in rows}
        left = room - 2 * len(groups)  # a heading and a count of the rest for each group
        chosen: set[int] = set()
        for row in sorted(rows, key=lambda r: (_URGENCY.get(r.status, 9), -r.order, r.name)):
            if row.lines() > left:
                break
            left -= row.lines()
            chosen.add(id(row))
        return chosen

    def _row_lines(self, row: _Row) -> list[Text]:
        from rich.text import Text

        ms = row.duration_ms if row.duration_ms is not None else int((self._clock() - row.since) * 1_000)
        style = _STYLES.get(row.status, "")
        line = Text(no_wrap=True)
        line.append(f"  {_GLYPHS.get(row.status, row.status):<4} ", style=style)
        width = self._name_width()
        name = row.name if len(row.name) <= width else row.name[: width - 1] + "…"
        line.append(f"{name:<{width}}")
        if row.status != "skipped":
            line.append(f" {count(row.rows):>{self._count_width()}} rows {elapsed(ms):>7}")
            speed = rate(row.rows, ms) if row.kind in ("SourceLoad", "SinkWrite") else ""
            line.append(f" {speed:>12}" if speed else "", style="bright_black")
        if row.label:
            line.append(f" {row.label}", style="bright_black")
        return [line, *(Text(f"       {text}", style=style) for style, text in row.notes.values())]

    def _name_width(self) -> int:
        longest = max((len(row.name) for row in self._rows.values()), default=0)
        return max(8, min(longest, _NAME_WIDTH, self._console.size.width - self._count_width() - 23))

    def _count_width(self) -> int:
        return max((len(count(row.rows)) for row in self._rows.values()), default=1)

    def _footer(self) -> Text:
        from rich.text import Text

        ms = self._duration_ms if self._duration_ms is not None else int((self._clock() - self._began) * 1_000)
        running = sum(1 for row in self._rows.values() if row.status == "running")
        failed = sum(1 for row in self._rows.values() if row.status == "failed")
        line = Text(f"{count(self._finished)} of {count(self._total)} done", style="bold")
        if running:
            line.append(f", {count(running)} running")
        if failed:
            line.append(f", {count(failed)} failed", style="red")
        line.append(f", {elapsed(ms)}", style="bright_black")
        return line


def _tally(rows: list[_Row]) -> str:
    """``12 more: 10 ok, 2 skip``."""
    words = [
        f"{count(number)} {_GLYPHS[status] if status != 'running' else 'running'}"
        for status in _URGENCY
        if (number := sum(1 for row in rows if row.status == status))
    ]
    return f"{count(len(rows))} more: {', '.join(words)}"
