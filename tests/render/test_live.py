from __future__ import annotations

import io
from collections.abc import Callable
from types import ModuleType

import pytest
from rich.console import Console

from pz_core.render.live import Live

Screen = Callable[[], list[str]]


def view(width: int, height: int) -> tuple[Live, Screen, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=True, width=width, height=height, color_system=None, legacy_windows=False
    )
    live = Live(console=console, clock=lambda: 1.0, auto_refresh=False)

    def lines() -> list[str]:
        # A console of its own: printing on the live one would redraw the view too.
        plain = Console(file=io.StringIO(), width=width, height=height, color_system=None)
        with plain.capture() as captured:
            plain.print(live.frame(), end="")
        return captured.get().splitlines()

    return live, lines, out


def test_groups_stand_in_a_fixed_order_and_rows_by_name(events: ModuleType) -> None:
    live, screen, _ = view(100, 40)
    live.on_event(events.make("RunStarted", project_name="demo", node_count=5))
    for name, kind in (("lake.b", "SinkWrite"), ("p", "Pipeline"), ("src_z", "SourceLoad"), ("src_a", "SourceLoad")):
        live.on_event(events.started(name, kind))
    live.on_event(events.completed("src_a", rows=2_000_000, duration_ms=1_000))
    shown = [line.split()[0] if not line.startswith(" ") else line.split()[1] for line in screen()]
    assert shown == ["demo", "sources", "src_a", "src_z", "pipelines", "p", "sinks", "lake.b", "1"]
    assert any("ok   src_a" in line and "2,000,000 rows" in line and "2.0M rows/s" in line for line in screen())
    live.close()


def test_text_of_the_data_is_neither_markup_nor_control(events: ModuleType) -> None:
    live, screen, out = view(100, 40)
    live.on_event(events.started("p[bold]", "Check"))
    live.on_event(
        events.completed(
            "p[bold]", "Check", "failed", error_code="PZ0510", error_message="[red]x[/] \x1b[2Jy\x07\nmore"
        )
    )
    shown = "\n".join(screen())
    assert "p[bold]" in shown and "PZ0510: [red]x[/] y" in shown and "more" not in shown
    live.close()
    assert "\x1b[2J" not in out.getvalue() and "\x07" not in out.getvalue()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 6)])
def test_a_tall_tree_never_overflows_and_counts_what_it_hides(events: ModuleType, width: int, height: int) -> None:
    live, screen, _ = view(width, height)
    live.on_event(events.make("RunStarted", project_name="a_project_with_a_long_name" * 4, node_count=400))
    for i in range(100):
        for kind in ("SourceLoad", "Pipeline", "Check", "SinkWrite"):
            name = f"{kind}_{i:03d}_with_a_name_that_is_longer_than_any_column_can_be"
            live.on_event(events.started(name, kind))
            if i < 99:
                status = "failed" if i % 3 else "success"
                live.on_event(
                    events.completed(name, kind, status, rows=10**12, error_code="PZ0501", error_message="m" * 300)
                )
    shown = screen()
    assert len(shown) < height
    assert all(len(line) < width for line in shown)
    assert any("more:" in line for line in shown)
    assert any(line.startswith("  ..") for line in shown), "what runs is shown first"
    live.close()


def test_notes_of_a_node_stand_below_it_and_a_retry_is_forgotten_once_it_ended(events: ModuleType) -> None:
    live, screen, _ = view(100, 40)
    live.on_event(events.started("src_a"))
    live.on_event(
        events.make(
            "RetryScheduled", node_id="id-src_a", name="src_a", attempt=1, max_attempts=3, delay_ms=5, reason="busy"
        )
    )
    assert any("attempt 1/3" in line for line in screen())
    live.on_event(events.make("NodeWarning", node_id="id-src_a", name="src_a", code="PZ0524", message="which day?"))
    live.on_event(events.completed("src_a", timings={"consumerStallMs": 9}, provenance="reused"))
    shown = "\n".join(screen())
    assert "attempt" not in shown
    assert "PZ0524: which day?" in shown and "source-bound" in shown and "(reused)" in shown
    live.close()


def test_the_last_state_stays_on_the_screen_and_nothing_is_drawn_after_it(events: ModuleType) -> None:
    live, _, out = view(80, 24)
    live.on_event(events.started("src_a"))
    live.on_event(events.completed("src_a", rows=7))
    live.on_event(events.make("RunCompleted", status="success", succeeded=1, failed=0, skipped=0, duration_ms=65_000))
    live.on_event(events.make("RetentionSwept", runs_swept=1, bytes_freed=1, failures=0))
    live.close()
    live.close()
    assert "7 rows" in out.getvalue() and "1m 05s" in out.getvalue()
    length = len(out.getvalue())
    live.on_event(events.started("late"))
    assert len(out.getvalue()) == length


def test_a_node_that_only_ends_is_shown(events: ModuleType) -> None:
    live, screen, _ = view(80, 24)
    live.on_event(events.completed("lake.x", "SinkWrite", "skipped"))
    assert any(line.split() == ["skip", "lake.x"] for line in screen())
    live.close()
