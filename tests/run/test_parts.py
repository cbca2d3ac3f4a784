from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pz_core.contract.events import NodeProgress, RunStarted
from pz_core.plan.model import RetryPolicy
from pz_core.project.model import BreakerSettings
from pz_core.run.breaker import Breaker, Ticket
from pz_core.run.bus import EventBus
from pz_core.run.cancel import CancelToken, StopSignals
from pz_core.run.results import NodeResult, ResultsFile, read_results
from pz_core.run.retry import delay_ms
from pz_core.run.runid import in_milliseconds, instant_of, is_run_id, mint

AT = datetime(2026, 9, 2, 10, 15, 33, 221_999, tzinfo=UTC)


# --- ids --------------------------------------------------------------------------------------------------------------


def test_an_id_is_the_utc_instant_cut_to_milliseconds_and_four_hex():
    made = mint(AT.astimezone(timezone(timedelta(hours=-7))))
    assert made.startswith("20260902T101533221Z-") and is_run_id(made)
    assert instant_of(made) == datetime(2026, 9, 2, 10, 15, 33, 221_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["zz", "20260902T101533221Z", "20260902T101533221Z-4C1A", "٢0260902T101533221Z-4c1a", ""]
)
def test_other_names_are_no_ids(name):
    assert not is_run_id(name) and instant_of(name) is None


def test_an_id_that_is_no_instant_has_no_date():
    assert instant_of("20261302T101533221Z-4c1a") is None


def test_instants_are_cut_to_milliseconds_in_utc():
    assert in_milliseconds("2026-01-01T02:00:00.123999+02:00") == "2026-01-01T00:00:00.123Z"
    assert in_milliseconds("soon") == "soon"


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "retry_after", "draw", "expected"),
    [
        (1, None, 0.5, 1_000),
        (2, None, 0.5, 2_000),
        (5, None, 0.5, 16_000),
        (6, None, 0.5, 30_000),
        (500, None, 0.5, 30_000),
        (1, None, 0.0, 750),
        (6, None, 0.999_999, 37_500),
        (1, 120, 0.5, 30_000),
        (4, 2, 0.5, 2_000),
        (3, 0, 0.5, 0),
    ],
)
def test_delays(failures, retry_after, draw, expected):
    assert delay_ms(RetryPolicy(), failures, retry_after, lambda: draw) == expected


# --- the breaker ------------------------------------------------------------------------------------------------------


class Clock:
    now = 0

    def __call__(self):
        return self.now


def breaker(threshold=2, cool_down=100):
    clock, states = Clock(), []
    made = Breaker(BreakerSettings(threshold, cool_down), lambda *change: states.append(change), clock)
    return made, clock, states


def test_the_threshold_opens_and_after_the_cool_down_one_probe_goes_through():
    made, clock, states = breaker()
    for _ in range(2):
        made.failed(made.admit())
    assert made.admit() == 100
    clock.now = 60
    assert made.admit() == 40
    clock.now = 100
    probe = made.admit()
    assert isinstance(probe, Ticket) and probe.probe
    assert made.admit() == 100
    made.succeeded(probe)
    assert isinstance(made.admit(), Ticket)
    assert states == [
        ("closed", "open", "failure_threshold", 100),
        ("open", "half_open", "cool_down", 0),
        ("half_open", "closed", "probe_succeeded", 0),
    ]


def test_a_success_forgets_failures_and_a_permanent_failure_does_not():
    made, _, states = breaker()
    made.failed(made.admit())
    made.succeeded(made.admit())
    made.failed(made.admit())
    assert states == []
    made.ended(made.admit())
    made.failed(made.admit())
    assert made.state == "open"


def test_outcomes_of_calls_admitted_before_a_trip_are_ignored():
    made, clock, _ = breaker(threshold=1)
    old, other = made.admit(), made.admit()
    made.failed(old)
    made.succeeded(other)
    assert made.state == "open"
    clock.now = 100
    probe = made.admit()
    made.failed(other)
    assert made.state == "half_open"
    made.ended(probe)
    assert isinstance(made.admit(), Ticket)


def test_open_lasts_as_long_as_the_place_asked_for():
    made, clock, _ = breaker(threshold=1)
    made.failed(made.admit(), retry_after=2)
    clock.now = 1_999
    assert made.admit() == 1


# --- the bus ----------------------------------------------------------------------------------------------------------


def event(n=0):
    return RunStarted(at="t", run_id="r", project_name="p", node_count=n)


class Keeps:
    name = "keeps"

    def __init__(self, gate=None):
        self.seen, self.gate, self.closed = [], gate, False

    def on_event(self, e):
        if self.gate is not None:
            self.gate.wait(5)
        self.seen.append(e)

    def close(self):
        self.closed = True


def test_observers_get_everything_in_order_and_are_closed():
    one, two = Keeps(), Keeps()
    bus = EventBus([one, two])
    for n in range(1_000):
        bus.publish(event(n))
    assert bus.close() == ()
    assert [e.node_count for e in one.seen] == list(range(1_000)) == [e.node_count for e in two.seen]
    assert one.closed
    bus.publish(event())
    assert len(one.seen) == 1_000


def test_one_that_never_returns_delays_the_end_only_so_long_and_no_other_observer():
    gate, good = threading.Event(), Keeps()
    bus = EventBus([Keeps(gate), good])
    for n in range(5):
        bus.publish(event(n))
    began = time.monotonic()
    (notice,) = bus.close(0.1)
    assert time.monotonic() - began < 1 and "keeps" in notice.message
    assert len(good.seen) == 5 and good.closed
    gate.set()


def test_publishing_never_waits_for_a_full_queue_and_progress_gives_way_first():
    gate = threading.Event()
    slow = Keeps(gate)
    bus = EventBus([slow], queue_length=10)
    progress = NodeProgress(at="t", run_id="r", node_id="n", name="n", rows=1, bytes=1, batches=1)
    for n in range(7):
        bus.publish(event(n))
    for _ in range(50):
        bus.publish(progress)
    for n in range(20):
        bus.publish(event(n))
    gate.set()
    (notice,) = bus.close()
    assert "not shown" in notice.message
    assert sum(isinstance(e, NodeProgress) for e in slow.seen) == 0 and len(slow.seen) >= 10


# --- the token --------------------------------------------------------------------------------------------------------


def test_a_token_tells_each_once_and_late_comers_at_once():
    parent = CancelToken()
    child, told = CancelToken(parent), []
    child.on_cancel(lambda: told.append("broken") or 1 / 0)
    child.on_cancel(lambda: told.append("a"))
    child.on_cancel(lambda: told.append("taken back"))()
    parent.cancel()
    parent.cancel()
    child.on_cancel(lambda: told.append("late"))
    assert told == ["broken", "a", "late"] and child.cancelled and child.wait(5)


def test_cancelling_a_child_leaves_the_parent_alone():
    parent = CancelToken()
    CancelToken(parent).cancel()
    assert not parent.cancelled


# --- the results file -------------------------------------------------------------------------------------------------


def test_results_are_durable_after_flush_and_terminal_after_finish(tmp_path):
    made = ResultsFile(tmp_path / "run_results.json", "r", "t")
    made.start()
    assert json.loads(made.path.read_text()) == {
        "version": 1,
        "runId": "r",
        "status": "running",
        "startedAt": "t",
        "nodes": [],
    }
    threads = [
        threading.Thread(target=lambda i=i: made.add(NodeResult(str(i), "Check", 'ü\n"', "success"))) for i in range(50)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.flush()
    assert len(read_results(made.path).nodes) == 50
    made.finish("success", "u")
    record = read_results(made.path)
    assert (record.status, record.finished_at, len(record.nodes)) == ("success", "u", 50)
    assert record.nodes[0].name == 'ü\n"' and made.path.read_text().count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["run_results.json"]


def test_a_disk_that_fails_is_told_by_flush_instead_of_hanging(tmp_path):
    made = ResultsFile(tmp_path / "d" / "run_results.json", "r", "t")
    made.start()
    made.path.unlink()
    made.path.parent.rmdir()
    made.path.parent.write_text("a file in the way")
    made.add(NodeResult("a", "Check", "a", "success"))
    with pytest.raises(OSError):
        made.flush()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nodes":[1],"runId":"r","status":"s","startedAt":"t"}', "\x00"])
def test_a_broken_file_is_a_value_error(tmp_path, text):
    (tmp_path / "f").write_text(text)
    with pytest.raises(ValueError):
        read_results(tmp_path / "f")


def test_a_text_that_is_no_unicode_does_not_break_the_file(tmp_path):
    made = ResultsFile(tmp_path / "run_results.json", "r", "t")
    made.start()
    made.add(NodeResult("a", "Check", "odd \udcff", "success"))
    made.flush()
    made.finish("success", "u")
    assert read_results(made.path).nodes[0].name == "odd \udcff"


# --- signals ----------------------------------------------------------------------------------------------------------

_DEAF = """
import os, time
from pz_core.run.cancel import CancelToken, StopSignals
token = CancelToken()
with StopSignals(token):
    # The signal may come while the other line is still being flushed, and a print inside a print is an error.
    token.on_cancel(lambda: os.write(1, b"told\\n"))
    os.write(1, b"ready\\n")
    time.sleep(20)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_tells_the_second_ends_the_process(number):
    with subprocess.Popen([sys.executable, "-c", _DEAF], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "told\n"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(10) == -number


def test_signals_are_left_alone_outside_the_main_thread():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work():
        with StopSignals(CancelToken()):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_results_nested_without_end_are_no_results(tmp_path):
    path = tmp_path / "run_results.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="results"):
        read_results(path)
