"""Reads in partitions: each whole or not at all, missing ones attempted again, whole ones reused by a retry."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

COPY = "select id, v from {{ source('src', 't') }}"
REPLACE = "{{ sink('lake', 't', strategy: 'replace', format: 'parquet') }}"
FOUR = {f"part {i}": list(range(i * 100, i * 100 + 25)) for i in range(4)}
ALL = sorted(i for ids in FOUR.values() for i in ids)


@pytest.fixture
def four(lab):
    lab.world.parts["t"] = dict(FOUR)
    lab.pipeline("t", REPLACE, COPY)
    return lab


def read_parts(lab):
    return sorted(part for _, part, _ in lab.world.reads)


def test_all_partitions_land_once_and_are_counted(four):
    four.pz("run")
    node = four.nodes()["src_src__t"]
    assert node["partitions"] == {"total": 4, "completed": 4, "reused": 0, "resumed": 0}
    assert node["accounting"] == {"read": 100, "staged": 100, "rejected": 0} and node["rows"] == 100
    assert four.rows("out/t/t.parquet") == ALL and read_parts(four) == sorted(FOUR)


def test_partitions_are_read_at_the_same_time_and_no_more_than_four(four):
    four.world.parts["t"] = {str(i): [i] for i in range(12)}
    four.world.pause = 0.02
    four.pz("run")
    assert 2 <= four.world.peak <= 4


def test_only_the_partition_that_failed_is_attempted_again_and_no_row_comes_twice(four):
    four.world.fail("t", "part 2", four.places.transient(), after=13)
    said = four.pz("run", "--log-format", "json")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert [e["attempt"] for e in events if e["event"] == "retry_scheduled"] == [1]
    done = next(e for e in events if e["event"] == "node_completed" and e["name"] == "src_src__t")
    assert done["partitions"] == {"total": 4, "completed": 4, "reused": 0, "resumed": 0}
    assert read_parts(four) == sorted([*FOUR, "part 2"])
    assert four.rows("out/t/t.parquet") == ALL


def test_siblings_of_a_failing_partition_finish_and_the_fault_may_pass_only_if_all_may(four):
    four.world.fail("t", "part 1", four.places.transient("line cut"), after=10)
    four.world.fail("t", "part 3", four.places.final("no right to read it"))
    said = four.pz("run", code=1)
    assert "2 of 4 partitions could not be read, the first one: line cut" in said.err
    assert read_parts(four) == sorted(FOUR)
    assert four.nodes()["src_src__t"]["partitions"] == {"total": 4, "completed": 2, "reused": 0, "resumed": 0}


def test_the_longest_wait_that_any_partition_asks_for_counts(four, monkeypatch):
    waits = []
    monkeypatch.setattr("pz_core.run.nodes.delay_ms", lambda policy, n, after: waits.append(after) or 0)
    four.world.fail("t", "part 0", four.places.transient(after=3))
    four.world.fail("t", "part 1", four.places.transient(after=7))
    four.pz("run")
    assert waits == [7] and four.rows("out/t/t.parquet") == ALL


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        (["a", "b", "a"], "partitions 1 and 3 have one id"),
        (["a", "", "c"], "partition 2 has no id"),
    ],
)
def test_partitions_without_an_identity_are_refused_before_anything_is_read(four, monkeypatch, ids, told):
    from pz_core.contract import Partition

    monkeypatch.setattr(
        four.places.Source, "partitions", lambda self, spec: [Partition(i, id) for i, id in enumerate(ids)]
    )
    said = four.pz("run", code=1)
    assert "PZ0319" in said.err and told in said.err and "part " not in said.err.replace("part 2", "")
    assert four.world.reads == []


def test_a_batch_of_another_shape_stops_all_partitions(four):
    import pyarrow as pa

    real = four.places.batches
    other = pa.schema([("id", pa.string()), ("v", pa.string())])

    def odd(ids, schema, size=10):
        if 205 in ids:
            ids = ids[:5]
            yield pa.RecordBatch.from_arrays([pa.array([str(i) for i in ids]), pa.array(["v"] * 5)], schema=other)
            return
        yield from real(ids, schema, size)

    four.places.batches = odd
    said = four.pz("run", code=1)
    assert "PZ0501" in said.err and "column 1" in said.err


def test_a_partition_without_rows_counts_and_one_without_a_batch_is_a_fault(four, monkeypatch):
    four.world.parts["t"]["part 1"] = []
    four.pz("run")
    assert four.nodes()["src_src__t"]["partitions"]["completed"] == 4
    monkeypatch.setattr(four.places, "batches", lambda ids, schema, size=10: iter(()))
    assert "gave no batch" in four.pz("run", code=1).err


def test_a_fault_of_the_machine_inside_a_connector_is_named_and_final(four):
    four.world.fail("t", "part 0", four.places.disk_full())
    said = four.pz("run", code=1)
    assert "PZ0501" in said.err and "No space left on device" in said.err
    assert read_parts(four) == sorted(FOUR)


def test_a_large_read_in_partitions_that_fails_over_and_over_is_whole_in_the_end(four):
    big = {str(i): list(range(i * 50_000, i * 50_000 + 15_000 + i)) for i in range(6)}
    four.world.parts["t"] = big
    real = four.places.batches
    four.places.batches = lambda ids, schema, size=10: real(ids, schema, 5_000)
    for part in ("1", "3", "5"):
        four.world.fail("t", part, four.places.transient(), after=12_000)
    four.world.fail("t", "3", four.places.transient(), after=12_000)
    four.pz("run")
    assert four.staged("src_src__t") == sorted(i for ids in big.values() for i in ids)
    assert len(four.world.reads) == 6 + 4


def test_many_reads_in_partitions_at_once_do_not_meet(lab):
    names = [f"t{i}" for i in range(6)]
    for name in names:
        lab.world.parts[name] = {f"{name} {i}": list(range(i * 10, i * 10 + 10)) for i in range(5)}
        lab.world.fail(name, f"{name} 2", lab.places.transient(), after=5)
        sink = f"{{{{ sink('lake', '{name}', strategy: 'replace', format: 'parquet') }}}}"
        lab.pipeline(name, sink, f"select id from {{{{ source('src', '{name}') }}}}")
    lab.write("project.yml", "name: again\nversion: 1.0.0\nengine: {threads: 6}\n")
    lab.pz("run", "--all")
    assert all(lab.rows(f"out/{name}/{name}.parquet") == list(range(50)) for name in names)
    assert len(lab.world.reads) == 6 * 6


def test_a_stop_from_outside_ends_a_read_in_partitions(four):
    four.world.parts["t"] = {str(i): [i] for i in range(40)}
    read = four.places.Source.read

    def stopping(self, spec, partition, batch_rows):
        if partition.ordinal == 3:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        return read(self, spec, partition, batch_rows)

    four.places.Source.read = stopping
    four.pz("run", code=3)
    assert len(four.world.reads) < 40 and four.nodes()["src_src__t"]["status"] == "skipped"


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_plan_says_how_many_partitions_are_asked_for(four):
    four.pipeline("t", REPLACE, "select id from {{ source('src', 't', partition_column: 'id', partitions: 3) }}")
    node = next(n for n in json.loads(four.pz("plan", "--json").out)["nodes"] if n["name"] == "src_src__t")
    assert node["partitions"] == 3 and "in 3 partitions" in node["reason"]
    assert "only missing ones are attempted again" in node["reason"]
    four.pipeline("t", REPLACE, "select id from {{ source('src', 't', partition_column: 'id', partitions: 99) }}")
    node = next(n for n in json.loads(four.pz("plan", "--json").out)["nodes"] if n["name"] == "src_src__t")
    assert node["partitions"] == 16


def test_a_native_read_is_planned_as_one_partition(four):
    four.write("in/x.csv", "id\n1\n")
    four.write("connections.yml", "f: {connector: localfiles, root: in}\nlake: {connector: localfiles, root: out}\n")
    four.pipeline("t", REPLACE, "select id from {{ source('f', 'x', format: 'csv') }}")
    nodes = json.loads(four.pz("plan", "--json").out)["nodes"]
    assert [n["partitions"] for n in nodes if n["name"] == "src_f__x"] == [1]


def test_partitions_without_ids_that_stay_are_read_together_and_all_again(four):
    four.connections(connector="plain")
    four.world.fail("t", "part 2", four.places.transient(), after=10)
    four.pz("run")
    assert four.rows("out/t/t.parquet") == ALL
    assert read_parts(four).count("part 2") == 2 and len(four.world.reads) > 5
    assert four.nodes()["src_src__t"]["partitions"] == {"total": 4, "completed": 4, "reused": 0, "resumed": 0}


# --- pz retry --------------------------------------------------------------------------------------------------------


def failed_run(lab, part="part 3"):
    lab.world.fail("t", part, lab.places.final())
    lab.pz("run", code=1)
    lab.world.reads.clear()


def test_a_retry_reads_only_the_partitions_that_are_missing_and_says_so(four):
    failed_run(four)
    first = four.results()["runId"]
    said = four.pz("retry")
    assert f"src.t: 3 of 4 partitions (75 rows) are reused from run {first}, 1 were read" in said.err
    node = four.nodes()["src_src__t"]
    assert node["partitions"] == {"total": 4, "completed": 4, "reused": 3, "resumed": 0}
    assert node["accounting"] == {"read": 25, "reused": 75, "staged": 100, "rejected": 0}
    assert read_parts(four) == ["part 3"] and four.rows("out/t/t.parquet") == ALL


def test_a_retry_that_fails_again_hands_all_that_is_whole_on_to_the_next(four):
    four.world.fail("t", "part 1", four.places.final())
    failed_run(four)
    four.world.fail("t", "part 1", four.places.final())
    four.pz("retry", code=1)
    assert four.nodes()["src_src__t"]["partitions"] == {"total": 4, "completed": 3, "reused": 2, "resumed": 0}
    four.world.reads.clear()
    four.pz("retry")
    assert read_parts(four) == ["part 1"] and four.rows("out/t/t.parquet") == ALL


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("delete from run.staging.src_src__t where id = 101", "75 rows were recorded for its partitions and 74 are"),
        ("update run.pz_meta.partitions set scope = 'x' where part = 'part 1'", "of another slice"),
        ("update run.pz_meta.partitions set part = 'gone' where part = 'part 1'", "the read is split otherwise now"),
        ("drop table run.staging.src_src__t", "DuckDB cannot read its staging file"),
    ],
)
def test_whatever_does_not_agree_means_reading_everything(four, spoil, told):
    failed_run(four)
    four.tampered(spoil)
    said = four.pz("retry")
    assert told in said.err and read_parts(four) == sorted(FOUR)
    assert four.rows("out/t/t.parquet") == ALL
    assert four.nodes()["src_src__t"]["partitions"]["reused"] == 0


def test_other_columns_than_those_of_the_earlier_run_mean_reading_everything(four):
    import pyarrow as pa

    failed_run(four)
    four.world.schemas["t"] = pa.schema([("id", pa.int32()), ("v", pa.string())])
    said = four.pz("retry")
    assert "its columns are not those of now" in said.err and four.rows("out/t/t.parquet") == ALL


def test_an_earlier_run_that_kept_no_partitions_is_passed_over_silently(four):
    for part in FOUR:
        four.world.fail("t", part, four.places.final())
    four.pz("run", code=1)
    said = four.pz("retry")
    assert "not reused" not in said.err and four.rows("out/t/t.parquet") == ALL


def test_full_refresh_takes_no_partition(four):
    failed_run(four)
    four.pz("retry", "--full-refresh")
    assert read_parts(four) == sorted(FOUR)


def test_partitions_of_another_place_are_not_taken(four):
    failed_run(four)
    four.connections(place="there")
    said = four.pz("retry")
    assert "connection 'src' is set up otherwise than in run" in said.err
    assert read_parts(four) == sorted(FOUR)


def test_a_window_that_has_moved_on_means_reading_everything(four):
    four.pipeline(
        "t",
        "{{ sink('lake', 't', strategy: 'append', duplicates: 'accept', format: 'parquet') }}",
        "select id, v from {{ source('src', 't') }} where id > {{ watermark('src', 't') }}",
    )
    four.pz("run")
    four.world.parts["t"] = {"part 0": [400, 401], "part 1": [500]}
    failed_run(four, "part 1")
    four.pz("state", "set", "src.t", "--value", "10", "--yes")
    said = four.pz("retry")
    assert "of another slice" in said.err and read_parts(four) == ["part 0", "part 1"]
