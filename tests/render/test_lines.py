from __future__ import annotations

import io
import json
from types import ModuleType

import pytest

from pz_core.render import Lines, Ndjson
from pz_core.render.lines import node_lines
from pz_core.render.summary import accounting_line, retention_line, summary_line
from pz_core.render.wording import bottleneck, warning


def test_a_finished_node_is_one_line(events: ModuleType) -> None:
    out = io.StringIO()
    lines = Lines(out)
    lines.on_event(events.started("src_a__b"))
    lines.on_event(events.completed("src_a__b", rows=1234, duration_ms=56))
    lines.on_event(events.completed("lake.x", "SinkWrite", "skipped", duration_ms=0))
    lines.on_event(events.completed("lake.y", "SinkWrite", rows=5, provenance="carried_forward"))
    assert out.getvalue().splitlines() == [
        "ok src_a__b 1234 rows 56ms",
        "skip lake.x 0 rows 0ms",
        "ok lake.y 5 rows 10ms (carried forward)",
    ]


def test_the_whole_message_of_a_failure_stands_indented_below_it(events: ModuleType) -> None:
    event = events.completed(
        "p",
        "Pipeline",
        "failed",
        error_code="PZ0501",
        error_message="Conversion Error: no\x1b[31m number\n\nLINE 2\x07: x",
    )
    assert node_lines(event) == ["FAIL p 0 rows 10ms", "  PZ0501: Conversion Error: no number", "  LINE 2: x"]


def test_a_sink_that_cannot_take_back_says_what_may_be_there(events: ModuleType) -> None:
    left = {"abort_semantics": "best_effort", "rows_visible": 1200}
    event = events.completed("m.t", "SinkWrite", "failed", error_code="PZ0501", error_message="gone", delivery=left)
    assert node_lines(event)[-1] == "  delivery stopped: up to 1,200 rows may be visible already (abort: best_effort)"
    again = events.completed("m.t", "SinkWrite", delivery={"resumed_rows": 1})
    assert node_lines(again)[-1] == "  resumed: 1 row had been delivered before"


def drift(events: ModuleType) -> object:
    change = {"kind": "retyped", "column": "x", "from": "INTEGER", "to": "BIGINT"}
    return events.make(
        "SourceDriftDetected",
        node_id="id-src_a__b",
        connection="a",
        entity="b",
        policy="warn",
        changes=(change, {"kind": "added", "column": "y"}),
        observed=(),
        hints_hash="h",
    )


def duplicates(events: ModuleType) -> object:
    return events.make(
        "MergeKeyDuplicatesDetected", node_id="n", output="m.parts", keys=("part_no",), duplicate_groups=1, extra_rows=2
    )


def test_warnings_have_words_for_the_live_view(events: ModuleType) -> None:
    assert warning(drift(events)) == "PZ0331: the source's columns have changed: retyped x (INTEGER->BIGINT), added y"
    assert (warning(duplicates(events)) or "").startswith("PZ0522: 1 key of (part_no) stood more than once")
    assert (
        warning(events.make("NodeWarning", node_id="n", name="p", code="PZ0524", message="a\nb\x1b[1m"))
        == "PZ0524: a b"
    )
    assert warning(events.started("p")) is None


def test_asides_have_a_line_and_warnings_are_left_to_the_report(events: ModuleType) -> None:
    out = io.StringIO()
    lines = Lines(out)
    lines.on_event(duplicates(events))
    lines.on_event(drift(events))
    lines.on_event(
        events.make(
            "RetryScheduled", node_id="n", name="q", attempt=1, max_attempts=3, delay_ms=900, reason="reset\nby peer"
        )
    )
    lines.on_event(
        events.make(
            "BreakerStateChanged", instance="pg", old_state="closed", new_state="open", trigger="5", cool_down_ms=9_000
        )
    )
    lines.on_event(events.make("ConnectorLog", level="info", connection="pg", message="hidden"))
    lines.on_event(events.make("ConnectorLog", level="odd", connection="pg", message="shown"))
    assert out.getvalue().splitlines() == [
        "retry: q attempt 1/3 in 900ms (reset by peer)",
        "breaker: connection pg closed->open (5; cool down 9s)",
        "connector [odd] pg: shown",
    ]


@pytest.mark.parametrize(
    ("kind", "timings", "expected"),
    [
        ("SourceLoad", {"consumerStallMs": 60, "producerStallMs": 0}, "source-bound"),
        ("SourceLoad", {"consumerStallMs": 0, "producerStallMs": 61}, "ingest-bound"),
        ("SinkWrite", {"consumerStallMs": 99, "producerStallMs": 0}, "staging-bound"),
        ("SinkWrite", {"consumerStallMs": 0, "producerStallMs": 60}, "sink-bound"),
        ("SinkWrite", {"consumerStallMs": 59, "producerStallMs": 59}, None),
        ("Pipeline", {"consumerStallMs": 99}, None),
        ("SinkWrite", None, None),
    ],
)
def test_a_side_that_waits_most_of_the_time_names_the_other(
    events: ModuleType, kind: str, timings: dict[str, int] | None, expected: str | None
) -> None:
    hint = bottleneck(events.completed("x", kind, duration_ms=100, timings=timings))
    assert (hint or "").split(":")[0] == (expected or "")


def test_ndjson_gives_one_flushed_line_an_event_and_keeps_text_as_it_is(events: ModuleType) -> None:
    class Flushed(io.StringIO):
        flushes = 0

        def flush(self) -> None:
            self.flushes += 1

    out = Flushed()
    observer = Ndjson(out)
    observer.on_event(events.make("RunStarted", project_name="höhe\n[bold]", node_count=1))
    observer.on_event(events.completed("a", accounting={"read": 3}))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2 and out.flushes == 2
    assert json.loads(lines[0]) == {
        "event": "run_started",
        "at": events.AT,
        "runId": events.RUN,
        "projectName": "höhe\n[bold]",
        "nodeCount": 1,
    }
    assert json.loads(lines[1])["accounting"] == {"read": 3}


def test_summary_lines_do_not_know_a_locale() -> None:
    assert summary_line("r1", 12, 0, 3, ".pz/x.json") == "run r1: 12 succeeded, 0 failed, 3 skipped (.pz/x.json)"
    assert accounting_line({"read": 1_234_567, "written": 5}, 4_200) == (
        "rows: read 1,234,567, staged 0, written 5, rejected 0 in 4.2s"
    )


def test_retention_is_silent_when_it_did_nothing() -> None:
    assert retention_line(0, 0, 0) is None
    assert retention_line(1, 2048, 0) == "retention: removed 1 staging database, freed 2 KB"
    assert retention_line(0, 0, 2) == "retention: removed 0 staging databases, freed 0 B; 2 could not be removed"
