from __future__ import annotations

import os
import signal
import sys
import threading
import time
from functools import partial

import pytest

from pz_core.contract.connector import ConnectorError
from pz_core.contract.engine import (
    Cancelled,
    CheckOutcome,
    DrainResult,
    LandResult,
    MaterialiseResult,
    Stalls,
    TaskWarning,
)
from pz_core.errors import PzError, PzErrors
from pz_core.plan.model import RetryPolicy
from pz_core.project.model import BreakerSettings, EngineConfig, SyncConfig
from pz_core.run.cancel import CancelToken
from pz_core.run.execute import _Run
from pz_core.run.lock import is_live
from pz_core.run.scheduler import Scheduler


def diamond(lab):
    lab.source("a")
    lab.pipeline("b", "a")
    lab.pipeline("c", "a")
    lab.pipeline("d", "b", "c")
    lab.pipeline("e")


def fail(code="PZ0501", message="no", **more):
    def action(task, control):
        raise PzError(code, message, **more)

    return action


def until_cancelled(started=None):
    def action(task, control):
        if started is not None:
            started.set()
        stop = threading.Event()
        control.on_cancel(stop.set)
        assert stop.wait(5)
        raise Cancelled

    return action


def test_a_run_that_goes_well_leaves_a_terminal_results_file(lab):
    lab.source("a")
    lab.pipeline("b", "a")
    lab.check("chk", "b")
    lab.sink("out.b", "b")
    result = lab.run()
    assert (result.status, result.exit_code) == ("success", 0)
    found = lab.results()
    assert list(found) == ["version", "runId", "status", "startedAt", "finishedAt", "nodes"]
    assert found["startedAt"] == "2026-01-01T00:00:00.123Z" and found["status"] == "success"
    assert found["nodes"][0] == {
        "id": "id-a",
        "kind": "SourceLoad",
        "name": "a",
        "status": "success",
        "rows": 2,
        "durationMs": found["nodes"][0]["durationMs"],
        "error": None,
        "accounting": {"read": 2, "staged": 2, "rejected": 0},
    }
    assert lab.engines[0].closed
    assert not (lab.root / ".pz" / "tmp" / result.run_id).exists()


def test_modules_that_chosen_nodes_need_are_imported_while_they_begin(lab, tmp_path, monkeypatch):
    names = ("wanted_by_a", "broken_for_a", "wanted_by_b", "wanted_by_e")
    for name in names:
        (tmp_path / f"{name}.py").write_text("1 / 0" if name == "broken_for_a" else "")
    monkeypatch.syspath_prepend(tmp_path)
    diamond(lab)
    lab.imports.update({"a": ("broken_for_a", "absent", "wanted_by_a"), "b": ("wanted_by_b",), "e": ("wanted_by_e",)})
    assert lab.run("d").status == "success"
    until = time.monotonic() + 10
    while "wanted_by_b" not in sys.modules and time.monotonic() < until:
        time.sleep(0.01)
    found = [name for name in names if sys.modules.pop(name, None) is not None]
    assert found == ["wanted_by_a", "wanted_by_b"]


def test_events_come_in_order_and_only_retention_follows_the_end(lab):
    diamond(lab)
    lab.retention = 1
    lab.run()
    lab.run()
    names = [e.event for e in lab.recorder.events if e.run_id.startswith("20260101T000002")]
    assert names[0] == "run_started" and names[-2:] == ["run_completed", "retention_swept"]
    assert lab.recorder.events[0].node_count == 5
    for node in "abcde":
        mine = [e.event for e in lab.recorder.events if getattr(e, "name", None) == node]
        assert mine == ["node_started", "node_completed"] * 2
    assert lab.recorder.closed


def test_a_failed_node_skips_what_hangs_on_it_and_nothing_else(lab):
    diamond(lab)
    lab.actions["b"] = fail()
    result = lab.run()
    assert lab.status(result) == {"a": "success", "b": "failed", "c": "success", "d": "skipped", "e": "success"}
    assert (result.status, result.exit_code) == ("completed_with_failures", 1)
    assert [e.render() for e in result.errors] == ["error PZ0501: no (b)"]
    assert [e.name for e in lab.recorder.of("node_completed") if e.status == "skipped"] == ["d"]
    assert "d" not in [e.name for e in lab.recorder.of("node_started")]


def test_a_failed_check_skips_nothing_and_counts_its_violations(lab):
    lab.pipeline("b")
    lab.check("chk", "b")
    lab.sink("out.b", "b")
    sample = ((("id", "1"), ("email", None)), (("id", "2"), ("email", None)))
    lab.actions["chk"] = lambda task, control: CheckOutcome(7, "rows", sample)
    result = lab.run()
    assert lab.status(result) == {"b": "success", "chk": "failed", "out.b": "success"}
    (error,) = result.errors
    assert error.code == "PZ0510"
    for part in ("not_null", "staging.b", "7", "{id=1, email=null}; {id=2, email=null}"):
        assert part in error.message
    assert next(n for n in result.nodes if n.name == "chk").rows == 7


def test_a_check_shows_its_aggregate(lab):
    lab.pipeline("b")
    lab.check("chk", "b", kind="row_count")
    lab.actions["chk"] = lambda task, control: CheckOutcome(1, "rows", (), (("count", "0"), ("min", "1")))
    assert "{count=0, min=1}" in lab.run().errors[0].message


def test_unselected_nodes_stay_out_and_ancestors_come_in(lab):
    diamond(lab)
    result = lab.run("b")
    assert {n.name for n in result.nodes} == {"a", "b"}


def test_a_transient_failure_is_tried_again_by_the_policy(lab):
    lab.source("a")
    failures = [ConnectorError("busy", transient=True), ConnectorError("busy", transient=True)]
    lab.actions["a"] = lambda task, control: (_ for _ in ()).throw(failures.pop()) if failures else None
    result = lab.run()
    assert result.status == "success"
    assert lab.calls == [("a", 1), ("a", 2), ("a", 3)]
    assert [(e.attempt, e.max_attempts, e.reason) for e in lab.recorder.of("retry_scheduled")] == [
        (1, 3, "busy"),
        (2, 3, "busy"),
    ]
    assert len(lab.recorder.of("node_started")) == 1


def test_attempts_end_with_the_policy_and_permanent_failures_end_at_once(lab):
    lab.source("a")
    lab.source("z")
    lab.actions["a"] = lambda task, control: (_ for _ in ()).throw(ConnectorError("busy", transient=True))
    lab.actions["z"] = lambda task, control: (_ for _ in ()).throw(ConnectorError("wrong"))
    result = lab.run(engine=EngineConfig(threads=1))
    assert [c[0] for c in lab.calls] == ["a", "a", "a", "z"]
    assert [e.code for e in result.errors] == ["PZ0501", "PZ0501"]


def test_each_attempt_of_a_sink_says_its_number_and_the_run(lab):
    lab.pipeline("b")
    lab.sink("out.b", "b")
    seen = []

    def drain(task, control):
        seen.append((task.write.attempt, task.write.run_id, task.write.node_id))
        if len(seen) == 1:
            raise ConnectorError("busy", transient=True)

    lab.actions["out.b"] = drain
    result = lab.run()
    assert seen == [(1, result.run_id, "id-out.b"), (2, result.run_id, "id-out.b")]


def test_what_nobody_expected_fails_the_node_without_showing_its_text(lab):
    lab.source("a")
    lab.actions["a"] = lambda task, control: {}["hunter2"]
    (error,) = lab.run().errors
    assert error.code == "PZ0501" and "KeyError" in error.message and "hunter2" not in error.render()


def test_no_permission_has_a_code_of_its_own(lab):
    lab.source("a")
    lab.actions["a"] = lambda task, control: (_ for _ in ()).throw(PermissionError(13, "denied", "x/y"))
    (error,) = lab.run().errors
    assert error.code == "PZ0531" and "x/y" in error.message


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("a", LandResult(3, 2)),
        ("out.b", DrainResult(2, 1)),
        ("out.b", DrainResult(1, 1)),
    ],
)
def test_rows_that_vanish_fail_the_node(lab, name, answer):
    lab.source("a")
    lab.pipeline("b", "a")
    lab.sink("out.b", "b")
    lab.actions[name] = lambda task, control: answer
    assert [e.code for e in lab.run().errors] == ["PZ0811"]


def test_trimmed_rows_and_rows_that_a_keyed_strategy_leaves_out_are_accounted_for(lab):
    lab.source("a")
    lab.pipeline("b", "a")
    lab.sink("out.b", "b", keys=["id"])
    lab.actions["a"] = lambda task, control: LandResult(5, 3, trimmed=2)
    lab.actions["out.b"] = lambda task, control: DrainResult(2, 1)
    result = lab.run()
    assert result.status == "success"
    assert result.nodes[0].accounting == {"read": 5, "staged": 3, "rejected": 0, "trimmed": 2}


def test_warnings_become_events_and_notices(lab):
    lab.pipeline("b")
    lab.sink("out.b", "b", keys=["id"])
    warned = (
        TaskWarning("PZ0522", "several rows of one key", {"duplicateGroups": 1, "extraRows": 2}),
        TaskWarning("PZ0524", "day or month"),
    )
    lab.actions["out.b"] = lambda task, control: DrainResult(2, 2, warnings=warned)
    result = lab.run()
    (event,) = lab.recorder.of("merge_key_duplicates_detected")
    assert (event.output, event.keys, event.duplicate_groups, event.extra_rows) == ("out.b", ("id",), 1, 2)
    assert [e.code for e in lab.recorder.of("node_warning")] == ["PZ0524"]
    assert [n.code for n in result.notices] == ["PZ0522", "PZ0524"] and result.status == "success"


def test_stalls_stand_in_the_result_of_a_universal_edge_only(lab):
    lab.source("a")
    lab.source("z")
    lab.actions["a"] = lambda task, control: LandResult(2, 2, tier="universal", stalls=Stalls(3, 4))
    lab.run()
    found = {n["name"]: n for n in lab.results()["nodes"]}
    assert found["a"]["timings"] == {"producerStallMs": 3, "consumerStallMs": 4}
    assert "timings" not in found["z"]


def test_progress_is_told_every_ten_batches(lab):
    lab.source("a")

    def land(task, control):
        for batch in range(1, 26):
            control.progress(batch, batch * 8, batch)

    lab.actions["a"] = land
    lab.run()
    assert [e.batches for e in lab.recorder.of("node_progress")] == [10, 20]


def test_an_engine_that_takes_changes_for_rows_fails_by_name(lab):
    lab.source("a", sync=SyncConfig("cdc"))
    (error,) = lab.run().errors
    assert error.code == "PZ0501" and "change capture" in error.message


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_fail_fast_stops_what_runs_and_skips_what_waits(lab):
    lab.pipeline("a")
    lab.pipeline("slow")
    lab.pipeline("z", "slow")
    started = threading.Event()
    lab.actions["slow"] = until_cancelled(started)
    lab.actions["a"] = lambda task, control: started.wait(20) and fail()(task, control)
    result = lab.run(fail_fast=True)
    assert lab.status(result) == {"a": "failed", "slow": "skipped", "z": "skipped"}
    assert (result.status, result.exit_code) == ("completed_with_failures", 1)


def test_fail_fast_with_one_thread_leaves_no_node_without_a_result(lab):
    lab.pipeline("a")
    for name, parent in (("b", ()), ("c", ("b",)), ("d", ("c",))):
        lab.pipeline(name, *parent)
    lab.actions["a"] = fail()
    result = lab.run(fail_fast=True, engine=EngineConfig(threads=1))
    assert lab.status(result) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "skipped"}


def test_a_signal_stops_the_run_in_order(lab):
    diamond(lab)
    lab.actions["a"] = until_cancelled()
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = lab.run()
    assert (result.status, result.exit_code) == ("fatal", 3)
    assert lab.status(result) == {"a": "skipped", "b": "skipped", "c": "skipped", "d": "skipped", "e": "success"}
    assert lab.results()["status"] == "fatal" and "finishedAt" in lab.results()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_stop_after_a_failure_can_be_retried(lab):
    lab.pipeline("a")
    lab.pipeline("z")
    token = CancelToken()
    lab.actions["a"] = fail()
    lab.actions["z"] = lambda task, control: (
        threading.Timer(0.1, token.cancel).start(),
        until_cancelled()(task, control),
    )
    result = lab.run(cancel=token)
    assert (result.status, result.exit_code) == ("completed_with_failures", 1)
    assert lab.status(result) == {"a": "failed", "z": "skipped"}


def test_a_stop_before_the_first_node_starts_none(lab):
    diamond(lab)
    token = CancelToken()
    token.cancel()
    result = lab.run(cancel=token)
    assert result.exit_code == 3 and lab.calls == [] and lab.recorder.of("node_started") == []
    assert len(result.nodes) == 5


def test_a_node_that_ends_well_although_it_was_told_to_stop_is_a_success(lab):
    lab.pipeline("a")
    token = CancelToken()

    def commits(task, control):
        token.cancel()
        return MaterialiseResult(2)

    lab.actions["a"] = commits
    result = lab.run(cancel=token)
    assert lab.status(result) == {"a": "success"} and result.exit_code == 0


def test_a_wait_between_attempts_ends_with_the_run(lab):
    lab.source("a")
    lab.policies["a"] = RetryPolicy(3, 60_000, 60_000)
    token = CancelToken()

    def land(task, control):
        threading.Timer(0.05, token.cancel).start()
        raise ConnectorError("busy", transient=True)

    lab.actions["a"] = land
    began = time.monotonic()
    result = lab.run(cancel=token)
    assert time.monotonic() - began < 2 and lab.status(result) == {"a": "skipped"}


def test_an_attempt_over_the_limit_fails_and_is_not_tried_again(lab):
    lab.source("a")
    lab.source("z")
    lab.actions["a"] = until_cancelled()
    result = lab.run(engine=EngineConfig(node_timeout_ms=50))
    (error,) = result.errors
    assert error.code == "PZ0525" and "a " in error.message and "50ms" in error.message
    assert lab.status(result) == {"a": "failed", "z": "success"}
    assert [c for c in lab.calls if c[0] == "a"] == [("a", 1)]


def test_waiting_between_attempts_does_not_count_as_time_of_an_attempt(lab):
    lab.source("a")
    lab.policies["a"] = RetryPolicy(2, 120, 120)
    failures = [ConnectorError("busy", transient=True)]
    lab.actions["a"] = lambda task, control: (_ for _ in ()).throw(failures.pop()) if failures else None
    assert lab.run(engine=EngineConfig(node_timeout_ms=60)).status == "success"


def test_a_node_that_does_not_stop_is_given_up_and_everything_else_stops(lab, monkeypatch):
    monkeypatch.setattr("pz_core.run.execute.Scheduler", partial(Scheduler, grace_ms=60))
    lab.source("deaf")
    lab.source("slow")
    lab.pipeline("z", "slow")
    release = threading.Event()
    lab.actions["deaf"] = lambda task, control: release.wait(5) and None
    heard = []

    def slow(task, control):
        control.on_cancel(lambda: heard.append(1))
        stop = threading.Event()
        control.on_cancel(stop.set)
        stop.wait(5)
        raise Cancelled

    lab.actions["slow"] = slow
    result = lab.run(engine=EngineConfig(node_timeout_ms=50))
    release.set()
    by_name = {n.name: n for n in result.nodes}
    assert by_name["deaf"].error.code == "PZ0526" and heard
    assert by_name["z"].status == "skipped" and len(result.nodes) == 3
    assert result.status == "completed_with_failures"


# --- what is around the nodes -----------------------------------------------------------------------------------------


def test_a_refusal_of_the_plan_leaves_nothing(lab):
    lab.source("a")
    lab.refusals["a"] = PzError("PZ0353", "no")
    with pytest.raises(PzErrors):
        lab.run()
    assert not (lab.root / ".pz").exists()


def test_an_engine_that_cannot_open_ends_the_run_fatally_with_a_result_for_every_node(lab):
    diamond(lab)
    lab.engines = None  # the fake's first act is to append itself there
    result = lab.run()
    assert (result.status, result.exit_code) == ("fatal", 3)
    assert {n.status for n in result.nodes} == {"skipped"} and len(result.nodes) == 5
    assert lab.results()["status"] == "fatal" and len(lab.results()["nodes"]) == 5
    assert result.errors[0].code == "PZ0500"


def test_a_fault_of_the_dispatcher_keeps_what_ended(lab, monkeypatch):
    diamond(lab)
    told = _Run._started

    def broken(self, work):
        if work.name == "b":
            raise RuntimeError("a bug")
        told(self, work)

    monkeypatch.setattr(_Run, "_started", broken)
    result = lab.run(engine=EngineConfig(threads=1))
    assert (result.status, result.exit_code) == ("fatal", 3)
    assert lab.status(result)["a"] == "success" and lab.status(result)["d"] == "skipped"
    assert len(result.nodes) == 5 and lab.recorder.events[-1].event == "run_completed"


def test_an_observer_that_raises_is_told_once_and_changes_nothing(lab):
    class Broken:
        name = "broken"

        def on_event(self, event):
            raise ValueError("hunter2")

        def close(self):
            raise AssertionError

    diamond(lab)
    result = lab.run(observers=[Broken(), lab.recorder])
    assert result.status == "success" and len(lab.recorder.of("node_completed")) == 5
    (notice,) = result.notices
    assert "broken" in notice.message and "ValueError" in notice.message and "hunter2" not in notice.message


def test_the_breaker_opens_lets_one_probe_through_and_tells_its_states(lab):
    lab.source("a")
    lab.source("b")
    lab.actions["a"] = lab.actions["b"] = lambda task, control: (_ for _ in ()).throw(
        ConnectorError("busy", transient=True)
    )
    engine = EngineConfig(threads=1, breaker=BreakerSettings(1, 20))
    result = lab.run(engine=engine)
    # b comes to a breaker that is open: it waits twice, is a probe twice, and is denied the third time
    assert [e.code for e in result.errors] == ["PZ0501", "PZ0506"]
    states = [(e.old_state, e.new_state) for e in lab.recorder.of("breaker_state_changed")]
    assert states[:3] == [("closed", "open"), ("open", "half_open"), ("half_open", "open")]
    assert lab.recorder.of("breaker_state_changed")[0].instance == "conn:c"


def test_a_connection_whose_breaker_stays_open_is_not_called(lab):
    lab.source("a")
    lab.actions["a"] = lambda task, control: (_ for _ in ()).throw(ConnectorError("busy", transient=True))
    lab.policies["a"] = RetryPolicy(9, 1, 1)
    result = lab.run(engine=EngineConfig(breaker=BreakerSettings(1, 10)))
    (error,) = result.errors
    assert error.code == "PZ0506" and "'c'" in error.message
    assert len(lab.calls) == 3  # the first, and one probe after each of two waits


def test_nodes_of_a_capped_connection_queue_without_holding_a_place(lab):
    for name in ("a1", "a2", "a3"):
        lab.source(name, "capped")
    lab.source("free", "other")
    free_done = threading.Event()
    lab.actions["free"] = lambda task, control: free_done.set()
    overlap = []

    def capped(task, control):
        with lab.lock:
            overlap.append({n for n in lab.now if n.startswith("a")})
        assert free_done.wait(2)

    for name in ("a1", "a2", "a3"):
        lab.actions[name] = capped
    result = lab.run(engine=EngineConfig(threads=2), caps={"capped": 1})
    assert result.status == "success" and all(len(o) == 1 for o in overlap)


def test_never_more_nodes_than_threads(lab):
    for name in "abcdef":
        lab.pipeline(name)
        lab.actions[name] = lambda task, control: time.sleep(0.02)
    lab.run(engine=EngineConfig(threads=2))
    assert lab.peak == 2


def test_with_one_thread_ready_nodes_go_by_kind_and_name(lab):
    lab.pipeline("b")
    lab.source("z")
    lab.pipeline("a")
    lab.source("y")
    lab.run(engine=EngineConfig(threads=1))
    assert [c[0] for c in lab.calls] == ["y", "z", "a", "b"]


def test_the_results_file_is_whole_at_every_moment_and_running_until_the_end(lab):
    seen = []

    def look(task, control):
        due = time.monotonic() + 20  # nodes are written by a thread of their own, soon after they end
        while len((found := lab.results())["nodes"]) < len(seen) and time.monotonic() < due:
            time.sleep(0.005)
        seen.append(found)

    for name in "abcd":
        lab.pipeline(name)
        lab.actions[name] = look
    lab.run(engine=EngineConfig(threads=1))
    assert all(s["status"] == "running" and "finishedAt" not in s for s in seen)
    assert [len(s["nodes"]) for s in seen] == [0, 1, 2, 3]


def test_the_temporary_folder_is_below_the_projects_own_choice_and_goes_with_the_run(lab):
    stale = lab.root / "spill" / "20200101T000000000Z-0000"
    stale.mkdir(parents=True)
    (lab.root / "spill" / "mine.txt").write_text("x")
    lab.pipeline("a")
    seen = []
    lab.actions["a"] = lambda task, control: seen.append(lab.engines[0].settings.temp_directory)
    result = lab.run(engine=EngineConfig(temp_directory="spill"))
    assert seen == [str(lab.root / "spill" / result.run_id)]
    assert [p.name for p in (lab.root / "spill").iterdir()] == ["mine.txt"]


def test_the_runs_directory_is_locked_while_it_runs(lab):
    lab.pipeline("a")
    seen = []
    lab.actions["a"] = lambda task, control: seen.append(is_live(lab.last))
    lab.run()
    assert seen == [True] and not is_live(lab.last)
