"""When a watermark moves: only with the rows, one dataset apart from another, and never over somebody else's."""

from __future__ import annotations

import json

import pytest

from pz_core.errors import PzError
from pz_core.plugins import Registry
from pz_core.run.cancel import CancelToken
from pz_core.state.local import LocalState

MERGE = "INSERT INTO {{ sink('mart', '%s', strategy: 'merge', keys: ['id']) }} "
APPEND = "INSERT INTO {{ sink('lake', '%s', duplicates: 'accept', format: 'parquet') }} "
READ = "select id, v from {{ source('shop', '%s', format: 'csv') }} where id > {{ watermark('shop', '%s') }}"


class Backend(LocalState):
    """The local state with faults that a test asks for."""

    faulty: dict[str, list[PzError]] = {}

    def write(self, scope, key, payload, expected):
        if self.faulty.get(key):
            raise self.faulty[key].pop()
        return super().write(scope, key, payload, expected)


class WithBackend(Registry):
    def load(self, kind, name):
        return Backend if kind == "state" else super().load(kind, name)


def fault(code="PZ0518"):
    return PzError(code, "the store is away")


@pytest.fixture
def faulty():
    Backend.faulty = {}
    yield Backend.faulty
    Backend.faulty = {}


def dataset(lab, name, rows="1,a\n2,b\n"):
    lab.write(f"in/{name}.csv", "id,v\n" + rows)


def flow(lab, name, sink=MERGE, source=None):
    source = source or name
    lab.write(f"pipelines/{name}.sql", sink % name + READ % (source, source))


def test_a_failed_sink_keeps_the_watermark_and_the_next_run_reads_the_same_rows(lab):
    lab.connections()
    dataset(lab, "a", "1,7\n2,8\n")
    flow(lab, "a")
    assert lab.run().exit_code == 0 and lab.stored("shop.a") == "2"
    dataset(lab, "a", "1,7\n2,8\n3,x\n4,9\n")  # v turns to text, which the target refuses
    result = lab.run()
    assert result.exit_code == 1 and lab.stored("shop.a") == "2"
    assert lab.node("src_shop__a")["watermark"] == {"cursor": "id", "type": "bigint", "value": "4"}
    assert lab.staged("src_shop__a") == [3, 4]
    assert "shop.a: the watermark stays: its output mart.a failed" in lab.notes(result)
    dataset(lab, "a", "1,7\n2,8\n3,5\n4,9\n")
    assert lab.run().exit_code == 0
    assert (lab.staged("src_shop__a"), lab.stored("shop.a")) == ([3, 4], "4")


def test_one_of_two_sinks_that_fails_holds_the_dataset_back(lab):
    lab.connections()
    dataset(lab, "a", "1,7\n2,8\n")
    lab.write("pipelines/a.sql", READ % ("a", "a"))
    lab.write("pipelines/good.sql", APPEND % "good" + "select id from {{ ref('a') }}")
    lab.write("pipelines/bad.sql", APPEND % "bad" + "select error('no') as id from {{ ref('a') }}")
    assert lab.run().exit_code == 1
    assert lab.stored("shop.a") is None


def test_a_sink_left_out_by_selection_holds_it_back_too(lab):
    lab.connections()
    dataset(lab, "a")
    lab.write("pipelines/a.sql", READ % ("a", "a"))
    lab.write("pipelines/b.sql", APPEND % "b" + "select id from {{ ref('a') }}")
    lab.write("pipelines/c.sql", APPEND % "c" + "select id from {{ ref('a') }}")
    result = lab.run("lake.b")
    assert result.exit_code == 0 and lab.stored("shop.a") is None
    assert "lake.c was not part of this run" in lab.notes(result)
    lab.run()
    assert lab.stored("shop.a") == "2"


def test_without_any_sink_it_advances_but_not_in_a_run_that_only_looks(lab):
    lab.connections()
    dataset(lab, "a")
    lab.write("pipelines/a.sql", READ % ("a", "a"))
    lab.run(advance=False)
    assert lab.stored("shop.a") is None
    lab.run()
    assert lab.stored("shop.a") == "2"


def test_nothing_new_writes_nothing(lab):
    lab.connections()
    dataset(lab, "a")
    flow(lab, "a")
    lab.run()
    before = (lab.root / ".pz/state/watermarks.json").read_bytes()
    lab.run()
    assert (lab.root / ".pz/state/watermarks.json").read_bytes() == before
    assert lab.node("src_shop__a")["rows"] == 0 and "watermark" not in lab.node("src_shop__a")


# --- the store fails --------------------------------------------------------------------------------------------------


def three(lab):
    lab.connections()
    for name in ("a", "b", "c"):
        dataset(lab, name)
        flow(lab, name, APPEND)


def test_a_dataset_that_cannot_be_stored_is_named_and_the_others_advance(lab, faulty):
    three(lab)
    faulty["shop.b"] = [fault(), fault(), fault()]
    result = lab.run(registry=WithBackend())
    assert (result.status, result.exit_code) == ("completed_with_failures", 1)
    (error,) = result.errors
    assert error.code == "PZ0527" and "shop.b" in error.message and "PZ0518" in error.message
    assert "shop.a" not in error.message and "shop.c" not in error.message
    assert (lab.stored("shop.a"), lab.stored("shop.b"), lab.stored("shop.c")) == ("2", None, "2")
    assert lab.results()["status"] == "completed_with_failures"
    assert lab.node("src_shop__b")["watermark"]["value"] == "2"


def test_a_store_that_comes_back_at_the_third_try_is_no_fault(lab, faulty):
    three(lab)
    faulty["shop.b"] = [fault(), fault()]
    assert lab.run(registry=WithBackend()).exit_code == 0
    assert lab.stored("shop.b") == "2"


def test_a_lost_race_is_not_tried_again_and_changes_nothing(lab):
    lab.connections()
    dataset(lab, "a")
    flow(lab, "a", APPEND)

    class Rival(LocalState):
        def entries(self, scope):
            found = super().entries(scope)
            lab.store("99", "bigint", "id", "shop.a")  # another run ends after this one has looked
            return found

    class WithRival(Registry):
        def load(self, kind, name):
            return Rival if kind == "state" else super().load(kind, name)

    result = lab.run(registry=WithRival())
    assert result.exit_code == 1 and "PZ0520" in result.errors[0].message and result.errors[0].code == "PZ0527"
    assert lab.stored("shop.a") == "99"


def test_a_store_that_cannot_be_read_stops_the_run_before_it_leaves_anything(lab):
    lab.connections()
    dataset(lab, "a")
    flow(lab, "a")
    lab.write(".pz/state/watermarks.json", json.dumps({"version": 99, "watermarks": {}}))
    with pytest.raises(PzError) as caught:
        lab.run()
    assert caught.value.code == "PZ0519"
    assert not (lab.root / ".pz/runs").exists()


def test_a_backend_that_nobody_brings_is_asked_for_only_where_it_is_needed(lab, monkeypatch):
    monkeypatch.setenv("PZ_STATE_BACKEND", "http")
    monkeypatch.setenv("PZ_STATE_URL", "https://state.example/x")
    lab.connections()
    dataset(lab, "a")
    lab.write("pipelines/full.sql", APPEND % "full" + "select id from {{ source('shop', 'a', format: 'csv') }}")
    assert lab.run().exit_code == 0
    flow(lab, "b", source="b")
    dataset(lab, "b")
    with pytest.raises(PzError) as caught:
        lab.run()
    assert caught.value.code == "PZ0125" and "http" in caught.value.message
    assert "pip install pz-state-http" in caught.value.hint


def test_an_unreadable_state_file_is_told_and_read_anew(lab):
    lab.connections()
    dataset(lab, "a")
    flow(lab, "a")
    lab.write(".pz/state/watermarks.json", "{ half")
    result = lab.run()
    assert result.exit_code == 0 and "full extract" in lab.notes(result)
    assert lab.stored("shop.a") == "2"


def test_an_entry_that_holds_no_watermark_is_told_and_read_anew(lab):
    lab.connections()
    dataset(lab, "a")
    flow(lab, "a")
    lab.store("yesterday", "timestamp", "id", "shop.a")
    result = lab.run()
    assert result.exit_code == 0 and "cannot be read" in lab.notes(result)
    assert lab.stored("shop.a") == "2"


def test_sqlite_remembers_as_local_does(lab):
    lab.write("project.yml", "name: lab\nversion: 1.0.0\nstate: {backend: sqlite}\n")
    lab.connections()
    dataset(lab, "a")
    flow(lab, "a")
    lab.run()
    dataset(lab, "a", "1,a\n2,b\n3,c\n")
    lab.run()
    assert lab.staged("src_shop__a") == [3]
    assert not (lab.root / ".pz/state/watermarks.json").exists()


def test_after_a_cancelled_run_a_dataset_whose_sinks_committed_has_advanced(lab):
    lab.connections()
    for name in ("a", "z"):
        dataset(lab, name)
        flow(lab, name, APPEND)
    token = CancelToken()

    class StopsAtCommit:
        name = "stops"

        def on_event(self, event):
            if event.event == "node_completed" and event.name == "lake.a":
                token.cancel()

        def close(self):
            pass

    lab.write("project.yml", "name: lab\nversion: 1.0.0\nengine: {threads: 1}\n")
    result = lab.run("lake.a", "lake.z", observers=[StopsAtCommit()], cancel=token)
    committed = {n.name for n in result.nodes if n.status == "success" and n.kind == "SinkWrite"}
    for name in ("a", "z"):
        assert lab.stored(f"shop.{name}") == ("2" if f"lake.{name}" in committed else None)
    assert lab.stored("shop.a") == "2"
