"""Columns of a dataset without a contract that differ from those accepted before."""

from __future__ import annotations

import json

import pytest

from pz_core.errors import PzErrors
from pz_core.run.drift import observe
from pz_core.run.schema_admin import accept


class Recorder:
    name = "recorder"

    def __init__(self):
        self.drifts = []

    def on_event(self, event):
        if event.event == "source_drift_detected":
            self.drifts.append(event)

    def close(self):
        pass


def project(lab, policy, columns=""):
    lab.write("project.yml", f"name: lab\nversion: 1.0.0\non_source_drift: {policy}\n")
    lab.connections(columns)
    lab.write("in/orders.csv", "id,b,c\n1,2,x\n")
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('lake', 'o', format: 'parquet') }} select id from {{ source('shop', 'orders') }}",
    )


def baseline(lab):
    path = lab.root / ".pz/state/schemas.json"
    entry = json.loads(path.read_text())["schemas"]["shop.orders"] if path.exists() else None
    return entry and [(c["name"], c["type"]) for c in entry["columns"]]


def drifted(lab):
    lab.write("in/orders.csv", "id,c,d\nv1,x,y\n")


def test_warn_tells_each_run_and_keeps_the_baseline(lab):
    project(lab, "warn")
    recorder = Recorder()
    lab.run(observers=[recorder])
    assert recorder.drifts == [] and baseline(lab) == [("id", "BIGINT"), ("b", "BIGINT"), ("c", "VARCHAR")]
    drifted(lab)
    for _ in range(2):
        result = lab.run(observers=[recorder])
        assert result.exit_code == 0
        assert [n.code for n in result.notices if n.code] == ["PZ0331"]
    assert [(c["kind"], c["column"], c["from"], c["to"]) for c in recorder.drifts[1].changes] == [
        ("added", "d", None, "VARCHAR"),
        ("retyped", "id", "BIGINT", "VARCHAR"),
        ("removed", "b", "BIGINT", None),
    ]
    assert baseline(lab)[0] == ("id", "BIGINT")


def test_fail_fails_the_load_until_it_is_accepted(lab):
    project(lab, "fail")
    lab.run()
    drifted(lab)
    (error,) = lab.run().errors
    assert error.code == "PZ0331" and "shop.orders" in error.message and "b removed" in error.message
    assert lab.node("lake.o")["status"] == "skipped"
    (done,) = accept(lab.root, ())
    assert done.dataset == "shop.orders" and len(done.changes) == 3
    assert lab.run().exit_code == 0
    assert accept(lab.root, ()) == ()


def test_a_contract_is_not_looked_at(lab):
    project(lab, "fail", "        columns: {id: varchar}")
    lab.run()
    assert baseline(lab) is None
    with pytest.raises(PzErrors) as caught:
        accept(lab.root, ["shop.orders"])
    assert [e.code for e in caught.value] == ["PZ0127"]


def test_a_read_of_another_shape_is_a_first_sight(lab):
    project(lab, "fail")
    lab.run()
    path = lab.root / ".pz/state/schemas.json"
    path.write_text(path.read_text().replace(observe("x", _no_hints(), ()).hints_hash, "0" * 16))
    drifted(lab)
    assert lab.run().exit_code == 0
    assert baseline(lab) == [("id", "VARCHAR"), ("c", "VARCHAR"), ("d", "VARCHAR")]


def _no_hints():
    from pz_core.contract.connector import ReadHints

    return ReadHints()


def test_columns_that_nothing_asks_for_are_seen_all_the_same(lab):
    # A duckdb table is read column by column as needed, and would hide what was added.
    project(lab, "warn")
    lab.ask(f"ATTACH '{lab.root}/mart.duckdb' AS m; CREATE TABLE m.t AS SELECT 1 AS id, 2 AS extra")
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('lake', 'o', format: 'parquet') }} select id from {{ source('mart', 't') }}",
    )
    lab.run()
    lab.ask(f"ATTACH '{lab.root}/mart.duckdb' AS m; ALTER TABLE m.t ADD COLUMN more VARCHAR")
    recorder = Recorder()
    lab.run(observers=[recorder])
    assert [c["column"] for c in recorder.drifts[0].changes] == ["more"]
