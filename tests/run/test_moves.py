"""A run in which rows pass straight through: who is asked what, and what counts as whose attempt."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from pz_core.contract.connector import ConnectorError
from pz_core.contract.engine import Cancelled, DrainResult, LandResult, MaterialiseResult, Moved, NotMoved
from pz_core.errors import PzError
from pz_core.plan.model import PassInto
from pz_core.run.cancel import CancelToken
from pz_core.run.scheduler import Scheduler

MOVED = Moved(LandResult(2, 0), MaterialiseResult(None), DrainResult(2, 2))


def passing(lab, move, **options):
    """Source ``a``, view ``v`` and sink ``out.v`` on an engine that moves; what it does is given."""
    lab.source("a")
    lab.pipeline("v", "a")
    lab.sink("out.v", "v")
    lab.moves = move
    lab.passes["a"] = PassInto("id-v", "id-out.v")
    return lab.run(**options)


def asked(lab):
    return [name for name, _ in lab.calls]


def test_a_move_that_goes_well_leaves_nothing_to_do(lab):
    result = passing(lab, lambda land, make, drain, control: MOVED)
    assert result.status == "success" and asked(lab) == ["move"]
    accounts = {node["name"]: node.get("accounting") for node in lab.results()["nodes"]}
    assert accounts == {
        "a": {"read": 2, "staged": 0, "passed": 2, "rejected": 0},
        "v": {},
        "out.v": {"staged": 2, "written": 2, "rejected": 0},
    }


@pytest.mark.parametrize("fault", [None, PzError("PZ0501", "no"), OSError("gone")])
def test_a_move_that_does_not_come_off_counts_for_nobody(lab, fault):
    def move(land, make, drain, control):
        raise NotMoved(fault, tried=False)

    result = passing(lab, move)
    assert result.status == "success" and not result.errors
    assert lab.calls == [("move", 1), ("a", 1), ("v", 1), ("out.v", 1)]
    assert lab.results()["nodes"][0]["accounting"] == {"read": 2, "staged": 2, "rejected": 0}


def test_a_commit_that_was_tried_is_the_first_attempt_of_the_sink(lab):
    def move(land, make, drain, control):
        raise NotMoved(ConnectorError("the line is dead", transient=True), tried=True)

    result = passing(lab, move)
    assert result.status == "success"
    assert lab.calls == [("move", 1), ("a", 1), ("v", 1), ("out.v", 2)]
    assert [event.attempt for event in lab.recorder.of("retry_scheduled")] == [1]


def test_a_commit_that_must_not_be_tried_again_fails_the_sink_and_keeps_the_rows(lab):
    def move(land, make, drain, control):
        raise NotMoved(ConnectorError("the answer is not known", transient=False), tried=True)

    result = passing(lab, move)
    assert asked(lab) == ["move", "a", "v"]
    assert [(n.name, n.status) for n in result.nodes] == [("a", "success"), ("v", "success"), ("out.v", "failed")]
    assert "the answer is not known" in result.errors[0].message


def test_a_source_that_is_tried_again_is_not_moved_again(lab):
    def move(land, make, drain, control):
        raise NotMoved(None, tried=False)

    def land(task, control):
        if control.attempt == 1:
            raise ConnectorError("later", transient=True)

    lab.actions["a"] = land
    assert passing(lab, move).status == "success"
    assert lab.calls == [("move", 1), ("a", 1), ("a", 2), ("v", 1), ("out.v", 1)]


def test_a_move_that_is_cancelled_skips_all_three(lab):
    token = CancelToken()

    def move(land, make, drain, control):
        stop = threading.Event()
        control.on_cancel(stop.set)
        token.cancel()
        assert stop.wait(5)
        raise Cancelled

    result = passing(lab, move, cancel=token)
    assert result.status == "fatal" and asked(lab) == ["move"]
    assert {node.status for node in result.nodes} == {"skipped"}


def test_an_engine_that_cannot_move_carries_out_the_three_tasks(lab):
    result = passing(lab, None)
    assert result.status == "success" and asked(lab) == ["a", "v", "out.v"]


def test_a_move_counts_for_both_of_its_connections(lab):
    together = threading.Barrier(2, timeout=0.3)

    def wait(*_):
        with pytest.raises(threading.BrokenBarrierError):
            together.wait()

    def move(land, make, drain, control):
        wait()
        return MOVED

    lab.source("b")
    lab.actions["b"] = wait
    lab.source("a", connection_="elsewhere")
    lab.pipeline("v", "a")
    lab.sink("out.v", "v")
    lab.moves = move
    lab.passes["a"] = PassInto("id-v", "id-out.v")
    assert lab.run(caps={"c": 1}).status == "success"
    assert sorted(asked(lab)) == ["b", "move"]


def test_a_selection_without_the_sink_moves_nothing(lab):
    lab.source("a")
    lab.pipeline("v", "a")
    lab.sink("out.v", "v")
    lab.moves = lambda *_: MOVED
    lab.passes["a"] = PassInto("id-v", "id-out.v")
    assert lab.run("v").status == "success"
    assert asked(lab) == ["a", "v"]


def test_the_write_of_a_move_knows_its_run(lab):
    seen = []

    def move(land, make, drain, control):
        seen.append(drain.write)
        return replace(MOVED)

    result = passing(lab, move)
    assert [(write.run_id, write.attempt) for write in seen] == [(result.run_id, 1)]


def test_the_fault_of_a_commit_is_told_even_if_the_rows_cannot_be_read_again(lab):
    def move(land, make, drain, control):
        raise NotMoved(ConnectorError("the answer is not known"), tried=True)

    def land(task, control):
        raise PzError("PZ0501", "the file is gone")

    lab.actions["a"] = land
    result = passing(lab, move)
    found = {node.name: (node.status, node.error and node.error.message) for node in result.nodes}
    assert found["a"][0] == "failed" and found["v"] == ("skipped", None)
    assert found["out.v"][0] == "failed" and "the answer is not known" in found["out.v"][1]


def test_a_run_that_stops_elsewhere_takes_nothing_from_a_move_that_ends(lab):
    moving, failed = threading.Event(), threading.Event()

    def move(land, make, drain, control):
        moving.set()
        assert failed.wait(5)
        return MOVED

    def fail(task, control):
        assert moving.wait(5)
        failed.set()
        raise PzError("PZ0501", "no")

    lab.source("b")
    lab.actions["b"] = fail
    result = passing(lab, move, fail_fast=True)
    statuses = {node.name: node.status for node in result.nodes}
    assert statuses == {"a": "success", "v": "success", "out.v": "success", "b": "failed"}
    assert [event.name for event in lab.recorder.of("node_completed") if event.name == "out.v"] == ["out.v"]
    assert len(lab.recorder.of("node_started")) == 4


def test_a_move_that_is_told_to_stop_and_does_not_leaves_its_sink_failed(lab, monkeypatch):
    short = {**Scheduler.__init__.__kwdefaults__, "grace_ms": 200}
    monkeypatch.setattr(Scheduler.__init__, "__kwdefaults__", short)
    token, over = CancelToken(), threading.Event()

    def move(land, make, drain, control):
        token.cancel()
        over.wait(3)
        return MOVED

    result = passing(lab, move, cancel=token)
    over.set()
    statuses = {node.name: node.status for node in result.nodes}
    assert statuses == {"a": "failed", "v": "skipped", "out.v": "failed"}
    assert "out.v" in result.errors[0].message


def test_a_move_that_did_not_come_off_is_noted(lab):
    def move(land, make, drain, control):
        raise NotMoved(PzError("PZ0501", "secret words"), tried=False)

    result = passing(lab, move)
    assert result.status == "success"
    (note,) = result.notices
    assert "PZ0501" in note.message and "secret" not in note.message
