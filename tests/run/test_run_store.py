"""Runs in the state's store: what the copy of a run needs of the store, and what becomes of it when the store fails."""

from __future__ import annotations

import json
import threading

import pytest

from pz_core.contract.state import RunHead
from pz_core.errors import PzError, PzErrors
from pz_core.run import store as storing
from pz_core.run.clean import clean
from pz_core.run.history import list_runs
from pz_core.run.retention import retain
from pz_core.run.store import RunRecorder, store_what_is_missing, stored_history

OLD, NEW = "20260101T000000000Z-0001", "20260102T000000000Z-0002"


def document(run_id: str, status: str = "success", **more) -> dict:
    return {"version": 1, "runId": run_id, "status": status, "startedAt": "2026-01-01T00:00:00.000Z",
            "finishedAt": "2026-01-01T00:00:01.000Z", "nodes": [], **more}  # fmt: skip


class InMemory:
    """A store that can be told to fail."""

    def __init__(self, *documents: dict, live=()) -> None:
        self.documents_ = {d["runId"]: d for d in documents}
        self.live = set(live)
        self.added: list = []
        self.events: list = []
        self.failing: set[str] = set()
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise PzError("PZ0518", "the state in memory cannot be reached", hint="wait")

    def describe(self) -> str:
        return "mem.runs"

    def identity(self) -> str:
        return "mem-1"

    def begin(self, document):
        self._call("begin")

    def add(self, run_id, first, nodes):
        self._call("add")
        assert first == len(self.added)
        self.added += nodes

    def end(self, document):
        self._call("end")
        self.documents_[document["runId"]] = document

    def add_events(self, run_id, first, events):
        self._call("add_events")
        assert first == len(self.events)
        self.events += events

    def heads(self):
        self._call("heads")
        return [RunHead(n, self.documents_[n]["status"], n in self.live) for n in sorted(self.documents_, reverse=True)]

    def documents(self, run_ids):
        self._call("documents")
        return {n: self.documents_[n] for n in run_ids if n in self.documents_}

    def remove(self, run_id):
        self._call("remove")
        return "removed" if self.documents_.pop(run_id, None) else "absent"


def recorded(root, run_id, status="success", **more):
    directory = root / ".pz" / "runs" / run_id
    directory.mkdir(parents=True)
    (directory / "run_results.json").write_text(json.dumps(document(run_id, status, **more)))
    (directory / "staging.duckdb").write_text("12345")
    return directory


# --- a run that goes on ----------------------------------------------------------------------------------------------


def test_every_node_is_written_once_while_the_run_goes_on() -> None:
    store = InMemory()
    recorder = RunRecorder(store, NEW)
    recorder.begin(document(NEW, "running"))
    nodes = [{"id": str(n)} for n in range(300)]
    for node in nodes:
        recorder.add(node)
    until(lambda: len(store.added) == 300)
    assert store.added == nodes
    assert recorder.end(document(NEW)) == ()
    assert store.documents_[NEW]["nodes"] == nodes


def test_nodes_that_the_store_did_not_take_are_stored_at_the_end(monkeypatch) -> None:
    monkeypatch.setattr(storing, "FAILURE_PAUSE", 0.01)
    store = InMemory()
    store.failing = {"add"}
    recorder = RunRecorder(store, NEW)
    recorder.begin(document(NEW, "running"))
    recorder.add({"id": "1"})
    until(lambda: store.calls.count("add") > 2)
    assert recorder.end(document(NEW)) == () and store.documents_[NEW]["nodes"] == [{"id": "1"}]


def test_an_end_that_the_store_did_not_take_is_told_and_made_good_later(tmp_path) -> None:
    store = InMemory(document(NEW, "running"))
    store.failing = {"end"}
    recorder = RunRecorder(store, NEW)
    recorder.begin(document(NEW, "running"))
    [notice] = recorder.end(document(NEW))
    assert notice.code == "PZ0518" and notice.severity == "warning" and "mem.runs" in notice.message
    recorded(tmp_path, NEW, "completed_with_failures")
    assert list_runs(tmp_path, store)[0].status == "completed_with_failures"  # the file here knows better
    store.failing = set()
    store_what_is_missing(tmp_path, store)
    assert store.documents_[NEW]["status"] == "completed_with_failures"


def test_a_run_that_did_not_end_here_either_is_left_as_it_is(tmp_path) -> None:
    store = InMemory(document(OLD, "running"), document(NEW, "running"), live=[NEW])
    recorded(tmp_path, OLD, "running")
    recorded(tmp_path, NEW, "success")
    store_what_is_missing(tmp_path, store)
    assert {d["status"] for d in store.documents_.values()} == {"running"}


def test_events_come_in_order_and_all(monkeypatch) -> None:
    store = InMemory()
    recorder = RunRecorder(store, NEW)
    recorder.begin(document(NEW, "running"))
    events = [{"event": "e", "n": n} for n in range(1234)]
    for event in events:
        recorder.event(event)
    assert recorder.drain_events() == 0 and store.events == events
    recorder.event({"event": "late"})
    assert recorder.drain_events() == 1
    recorder.end(document(NEW))


def test_a_store_that_takes_no_events_is_asked_three_times(monkeypatch) -> None:
    monkeypatch.setattr(storing, "FAILURE_PAUSE", 0.01)
    store = InMemory()
    store.failing = {"add_events"}
    recorder = RunRecorder(store, NEW)
    recorder.begin(document(NEW, "running"))
    for n in range(20):
        recorder.event({"n": n})
    assert recorder.drain_events() == 20 and store.calls.count("add_events") == 3
    assert recorder.end(document(NEW)) == ()


def test_events_beyond_the_buffer_are_dropped_and_hold_nobody_up(monkeypatch) -> None:
    monkeypatch.setattr(storing, "EVENTS_WAITING", 10)
    store, gate = InMemory(), threading.Event()
    store.add = lambda *_: gate.wait(10)  # the store is busy with something else
    recorder = RunRecorder(store, NEW)
    recorder.begin(document(NEW, "running"))
    recorder.add({"id": "1"})
    for n in range(25):
        recorder.event({"n": n})
    gate.set()
    assert recorder.drain_events() == 15 and len(store.events) == 10
    recorder.end(document(NEW))


def until(holds) -> None:
    for _ in range(500):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never came to hold")


# --- runs of all machines --------------------------------------------------------------------------------------------


def test_runs_of_both_places_are_one_history(tmp_path) -> None:
    third = "20260103T000000000Z-0003"
    recorded(tmp_path, OLD)
    recorded(tmp_path, third, "success", store="another-store")
    store = InMemory(document(NEW, "completed_with_failures"), live=[])
    assert [(r.run_id, r.status) for r in list_runs(tmp_path, store)] == [
        (third, "success"), (NEW, "completed_with_failures"), (OLD, "success"),
    ]  # fmt: skip
    store.calls.clear()
    assert [r.run_id for r in list_runs(tmp_path, store, limit=1)] == [third] and store.calls == ["heads"]


def test_a_run_that_was_taken_from_the_store_is_no_history_here(tmp_path) -> None:
    recorded(tmp_path, OLD, store="mem-1")
    recorded(tmp_path, NEW, store="another-store")
    assert [r.run_id for r in list_runs(tmp_path, InMemory())] == [NEW]
    assert len(list_runs(tmp_path)) == 2


def test_a_document_that_makes_no_sense_is_told_as_such(tmp_path) -> None:
    store = InMemory(document(OLD))
    store.documents_[OLD] = {"status": "success"}
    assert list_runs(tmp_path, store)[0].status == "unreadable"


def test_a_sweep_takes_stored_runs_whole_and_others_only_their_rows(tmp_path) -> None:
    local = recorded(tmp_path, "20251231T000000000Z-0000")
    both = recorded(tmp_path, OLD, store="mem-1")
    store = InMemory(document(OLD), document(NEW), live=[])
    swept = retain(tmp_path, 1, NEW, store=store)
    assert set(swept.runs) == {local.name, OLD} and swept.failed == () and not both.exists()
    assert (local / "run_results.json").is_file() and not (local / "staging.duckdb").exists()
    assert list(store.documents_) == [NEW]


def test_a_run_that_lives_elsewhere_is_spared_and_a_dead_store_is_asked_once(tmp_path) -> None:
    store = InMemory(document(OLD, "running"), document(NEW), live=[OLD])
    assert clean(tmp_path, keep_last=0, store=store, dry_run=True).runs == (NEW,) and NEW in store.documents_
    assert clean(tmp_path, keep_last=0, store=store).live == (OLD,)
    store.documents_, store.live, store.failing = {n: document(n) for n in (OLD, NEW)}, set(), {"remove"}
    store.calls.clear()
    assert set(clean(tmp_path, keep_last=0, store=store).failed) == {OLD, NEW} and store.calls.count("remove") == 1


@pytest.mark.parametrize("text", ["name: a\nversion: 1.0.0\n", "name: a\nstate: {backend: local}\n", "state: [\n"])
def test_a_project_without_a_store_has_its_history_here(tmp_path, text) -> None:
    (tmp_path / "project.yml").write_text(text)
    with stored_history(tmp_path, {}) as history:
        assert history.store is None
        assert bool(history.notices) == (text == "state: [\n")


def test_a_state_block_that_cannot_be_used_is_told(tmp_path) -> None:
    (tmp_path / "project.yml").write_text("name: a\nversion: 1.0.0\nstate: {backend: postgres}\n")
    with pytest.raises(PzErrors) as caught, stored_history(tmp_path, {}):
        pass
    assert [error.code for error in caught.value] == ["PZ0125"]
