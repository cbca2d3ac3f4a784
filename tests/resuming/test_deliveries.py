"""Targets that confirm rows on the way: a delivery goes on after them, in the run and in a retry."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

ROWS = list(range(100))


@pytest.fixture
def push(lab):
    """35 rows are handed over, 30 of them confirmed, then the line is cut."""
    lab.world.parts["t"] = {"all": list(reversed(ROWS))}
    lab.pipeline(
        "t",
        "{{ sink('api', 't', strategy: 'append', duplicates: 'accept') }}",
        "select id, v from {{ source('src', 't') }}",
    )
    return lab


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr("pz_core.engines.duckdb.arrow.batch_rows", lambda size, columns=None: 10)


def target(lab):
    return lab.world.targets.get("t", [])


def broken(lab, error=None, at=30):
    lab.world.write_fault = (at, error or lab.places.final("the api is down"))


def test_an_attempt_in_the_same_run_goes_on_after_what_was_confirmed(push):
    broken(push, push.places.transient())
    push.pz("run")
    assert push.world.offered == [30] and target(push) == ROWS
    node = push.nodes()["api.t"]
    assert node["delivery"] == {"abort_semantics": "best_effort", "resumed_rows": 30}
    assert node["rows"] == 100 and node["accounting"] == {"staged": 100, "written": 100, "rejected": 0}


def test_the_plan_says_that_a_delivery_goes_on(push):
    nodes = {n["name"]: n for n in json.loads(push.pz("plan", "--json").out)["nodes"]}
    assert nodes["api.t"]["guarantee"] == "at least once"
    assert "goes on behind the rows that the target confirmed" in nodes["api.t"]["onRetry"]
    push.connections(connector="plain")
    nodes = {n["name"]: n for n in json.loads(push.pz("plan", "--json").out)["nodes"]}
    assert "confirmed" not in nodes["api.t"]["onRetry"]


def test_a_failed_delivery_says_what_it_left(push):
    broken(push)
    said = push.pz("run", "--log-format", "json", code=1)
    assert push.nodes()["api.t"]["delivery"] == {"abort_semantics": "best_effort", "rows_visible": 30}
    told = [e for e in map(json.loads, said.out.splitlines()) if e["event"] == "node_completed" and "delivery" in e]
    assert [e["delivery"] for e in told] == [{"abortSemantics": "best_effort", "rowsVisible": 30}]


def test_a_retry_goes_on_in_the_file_of_the_run_before(push):
    broken(push)
    push.pz("run", code=1)
    push.pz("retry")
    assert push.world.offered == [30] and target(push) == ROWS
    assert push.nodes()["src_src__t"]["provenance"] == "reused"
    assert push.nodes()["api.t"]["delivery"]["resumed_rows"] == 30


def test_rows_that_come_in_another_order_are_the_same_delivery(push):
    broken(push)
    push.pz("run", code=1)
    push.world.parts["t"] = {"all": ROWS}
    (push.last() / "staging.duckdb.wal").stat()
    push.tampered("create or replace table run.staging.src_src__t as from run.staging.src_src__t order by hash(id)")
    push.pz("retry")
    assert push.world.offered == [30] and target(push) == ROWS


def test_other_rows_begin_at_the_first_one(push):
    broken(push)
    push.pz("run", code=1)
    push.tampered("update run.staging.src_src__t set v = 'other' where id = 99")
    push.pz("retry")
    assert push.world.offered == [] and sorted(target(push)) == sorted([*ROWS[:30], *ROWS])


def test_a_target_that_does_not_go_on_gets_all_rows_and_is_not_asked_again(push):
    broken(push)
    push.pz("run", code=1)
    push.world.accepts = False
    push.world.write_fault = (0, push.places.transient())
    push.pz("retry")
    assert push.world.offered == [30] and push.world.written[-1] == ROWS


def test_a_retry_that_never_came_to_the_delivery_does_not_forget_it(push):
    broken(push)
    push.pz("run", code=1)
    push.world.begin_fault = push.places.final("no right to write")
    push.pz("retry", code=1)
    push.pz("retry")
    assert push.world.offered == [30] and target(push) == ROWS


def test_each_retry_goes_on_after_the_one_before(push):
    broken(push)
    push.pz("run", code=1)
    broken(push, at=20)
    push.pz("retry", code=1)
    assert push.nodes()["api.t"]["delivery"]["rows_visible"] == 50
    push.pz("retry")
    assert push.world.offered == [30, 50] and target(push) == ROWS


def test_after_the_commit_nothing_is_left_to_go_on_from(push):
    broken(push, push.places.transient())
    push.pz("run")
    push.pz("run")
    assert push.world.offered == [30] and target(push) == [*ROWS, *ROWS]


def test_a_commit_that_fails_leaves_what_was_confirmed(push):
    push.world.commit_fault = push.places.transient("no answer")
    push.world.acknowledges = lambda sent: 0 if sent < 100 else 60
    push.pz("run")
    assert push.world.offered == [60]
    assert push.world.written == [ROWS[60:]], "no abort follows a commit that was tried"


@pytest.mark.parametrize("claims", [35, 1_000_000])
def test_a_target_that_claims_more_than_it_was_given_loses_no_row(push, claims):
    broken(push)
    push.world.acknowledges = lambda sent: claims if sent else 0
    push.pz("run", code=1)
    push.pz("retry")
    assert push.world.offered[0] <= 40


def test_a_delivery_to_another_place_begins_at_the_first_row(push):
    broken(push)
    push.pz("run", code=1)
    push.connections(place="there")
    said = push.pz("retry")
    assert "the delivery begins anew: connection 'api' is set up otherwise" in said.err
    assert push.world.offered == [] and push.world.written[-1] == ROWS


def test_full_refresh_begins_at_the_first_row(push):
    broken(push)
    push.pz("run", code=1)
    push.pz("retry", "--full-refresh")
    assert push.world.offered == []


def test_a_stop_from_outside_keeps_what_was_confirmed(push):
    write = push.places.Session.write

    def stopping(self, batch):
        write(self, batch)
        if len(self._ids) == 40:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.15)

    push.places.Session.write = stopping
    push.world.parts["u"] = {"all": [1]}
    push.world.fail("u", "all", push.places.final())
    push.pipeline(
        "u",
        "{{ sink('lake', 'u', strategy: 'replace', format: 'parquet') }}",
        "select id, v from {{ source('src', 'u') }}",
    )
    push.pz("run", "--all", code=1)
    assert push.nodes()["api.t"]["status"] == "skipped" and "delivery" not in push.nodes()["api.t"]
    push.places.Session.write = write
    push.pz("retry")
    assert push.world.offered == [40] and target(push) == ROWS


@pytest.mark.parametrize(("semantics", "told"), [("none", 40), ("best_effort", 40), ("discards_all", None)])
def test_a_sink_that_confirms_nothing_tells_what_it_was_given(push, semantics, told):
    push.connections(connector="plain")
    push.world.semantics = semantics
    broken(push)
    push.pz("run", code=1)
    found = push.nodes()["api.t"].get("delivery")
    assert found == (None if told is None else {"abort_semantics": semantics, "rows_visible": told})
    push.pz("retry")
    assert push.world.offered == [], "and it is never asked to go on"


def test_rows_of_a_view_are_the_same_at_every_attempt(push):
    push.write("pipelines/configs/t.yml", "pipeline: t\nmaterialization: view\n")
    push.pipeline(
        "t",
        "{{ sink('api', 't', strategy: 'append', duplicates: 'accept') }}",
        "select id, v from {{ source('src', 't') }}",
    )
    broken(push, push.places.transient())
    push.pz("run")
    assert push.world.offered == [30] and target(push) == ROWS
