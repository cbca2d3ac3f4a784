from __future__ import annotations

import json
import shutil

import duckdb
import pytest

APPEND = "strategy: 'append', duplicates: 'accept', format: 'parquet'"
BOTH = f"INSERT INTO [{{{{ sink('lake', 't', {APPEND}) }}}}, {{{{ sink('jammed', 't', {APPEND}) }}}}]\n"
INCREMENTAL = BOTH + (
    "select id, v from {{ source('src', 't', format: 'csv') }} where id > {{ watermark('src', 't') }}"
)


def failed_once(lab, sql=INCREMENTAL, data="id,v\n1,a\n2,b\n"):
    lab.write("in/t.csv", data)
    lab.write("pipelines/t.sql", sql)
    lab.pz("run", code=1)
    (lab.root / "jam").unlink()


def tamper(lab, sql):
    with duckdb.connect() as connection:
        connection.execute(f"attach '{lab.staging()}' as run")
        connection.execute(sql)


def test_reused_rows_and_a_carried_output_let_the_watermark_advance_under_the_new_run(lab):
    failed_once(lab)
    shutil.rmtree(lab.root / "in")
    said = lab.pz("retry")
    assert "1 read is reused, 1 output is carried forward" in said.err
    nodes = lab.nodes()
    assert nodes["src_src__t"]["provenance"] == "reused" and nodes["src_src__t"]["accounting"]["reused"] == 2
    assert nodes["lake.t"]["provenance"] == "carried_forward" and nodes["lake.t"]["durationMs"] == 0
    entry = json.loads((lab.root / ".pz/state/watermarks.json").read_text())["watermarks"]["src.t"]
    assert entry["value"] == "2" and entry["runId"] == lab.results()["runId"]
    assert lab.rows("out/t/*.parquet") == lab.rows("jam/t/*.parquet") == [1, 2]


def test_a_carried_output_is_told_after_the_start_and_is_not_counted(lab):
    failed_once(lab)
    events = [json.loads(line) for line in lab.pz("retry", "--log-format", "json").out.splitlines()]
    assert events[0]["event"] == "run_started" and events[0]["nodeCount"] == 3
    assert (events[1]["event"], events[1]["name"]) == ("node_completed", "lake.t")
    assert not [e for e in events if e["event"] == "node_started" and e["name"] == "lake.t"]


def test_a_lost_row_in_staging_means_reading_the_source_and_holding_the_watermark(lab):
    failed_once(lab)
    tamper(lab, "delete from run.staging.src_src__t where id = 1")
    said = lab.pz("retry")
    assert "2 rows were recorded and 1 are there" in said.err
    assert "provenance" not in lab.nodes()["src_src__t"]
    assert lab.nodes()["lake.t"]["provenance"] == "carried_forward"
    assert lab.stored("src.t") is None and lab.rows("jam/t/*.parquet") == [1, 2]


def test_one_dataset_that_is_reused_advances_beside_one_that_is_not(lab):
    other = INCREMENTAL.replace("'t'", "'u'")
    lab.write("in/u.csv", "id,v\n7,x\n")
    lab.write("pipelines/u.sql", other)
    lab.write("in/t.csv", "id,v\n1,a\n")
    lab.write("pipelines/t.sql", INCREMENTAL)
    lab.pz("run", "--all", code=1)
    (lab.root / "jam").unlink()
    tamper(lab, "drop table run.staging.src_src__u")
    lab.pz("retry")
    assert (lab.stored("src.t"), lab.stored("src.u")) == ("1", None)


def test_several_reads_out_of_one_file_at_once(lab):
    names = [f"t{i}" for i in range(6)]
    for name in names:
        lab.write(f"in/{name}.csv", "id\n1\n2\n")
        lab.write(
            f"pipelines/{name}.sql",
            f"INSERT INTO {{{{ sink('jammed', '{name}', strategy: 'replace', format: 'parquet') }}}}\n"
            f"select id from {{{{ source('src', '{name}', format: 'csv') }}}}",
        )
    lab.pz("run", "--all", code=1)
    (lab.root / "jam").unlink()
    shutil.rmtree(lab.root / "in")
    lab.pz("retry")
    assert [lab.nodes()[f"src_src__{name}"]["provenance"] for name in names] == ["reused"] * 6


def test_a_retry_that_fails_again_is_retried_from_its_own_staging(lab):
    # Two pipelines of one source, so that what the good output depends on is not run again.
    lab.write("in/t.csv", "id,v\n1,a\n")
    incremental = "from {{ source('src', 't', format: 'csv') }} where id > {{ watermark('src', 't') }}"
    lab.write("pipelines/base.sql", f"select id, v {incremental}")
    for name, place in (("good", "lake"), ("bad", "jammed")):
        lab.write(
            f"pipelines/{name}.sql",
            f"INSERT INTO {{{{ sink('{place}', '{name}', {APPEND}) }}}}\nselect id from {{{{ ref('base') }}}}",
        )
    lab.pz("run", code=1)
    first = lab.staging().parent
    lab.pz("retry", code=1)
    assert lab.nodes()["lake.good"]["provenance"] == "carried_forward" and "good" not in lab.nodes()
    shutil.rmtree(first)
    shutil.rmtree(lab.root / "in")
    (lab.root / "jam").unlink()
    lab.pz("retry")
    assert lab.nodes()["lake.good"]["provenance"] == "carried_forward"
    assert lab.nodes()["src_src__t"]["provenance"] == "reused"
    assert lab.stored("src.t") == "1" and lab.rows("out/good/*.parquet") == [1]


TABLE = (
    "INSERT INTO {{ sink('jammed', 't', strategy: 'replace', format: 'parquet') }}\n"
    "select id from {{ source('db', 'p') }}"
)


def failed_on_table(lab, sql):
    with duckdb.connect(str(lab.root / "src.duckdb")) as connection:
        connection.execute("create table p as select 1 as id, 'a' as v")
    failed_once(lab, sql)


def test_an_edited_pipeline_that_asks_for_a_column_that_was_left_out_reads_the_source(lab):
    failed_on_table(lab, TABLE)
    assert lab.nodes()["src_db__p"]["read"] == {"columns": ["id"]}
    lab.write("pipelines/t.sql", TABLE.replace("select id", "select id, v"))
    assert "columns were left out that are asked for now" in lab.pz("retry").err
    assert "provenance" not in lab.nodes()["src_db__p"]


def test_an_edited_pipeline_that_asks_for_less_reuses(lab):
    failed_on_table(lab, TABLE.replace("select id", "select id, v"))
    lab.write("pipelines/t.sql", TABLE)
    lab.pz("retry")
    assert lab.nodes()["src_db__p"]["provenance"] == "reused"


def test_rows_that_a_filter_left_out_are_read_when_the_filter_is_another_one(lab):
    failed_on_table(lab, f"{TABLE} where id > 0")
    assert "predicateHash" in lab.nodes()["src_db__p"]["read"]
    lab.write("pipelines/t.sql", f"{TABLE} where id > -1")
    lab.pz("retry")
    assert "provenance" not in lab.nodes()["src_db__p"]


def test_an_edited_read_is_not_reused_and_a_note_says_why(lab):
    failed_once(lab)
    lab.write("pipelines/t.sql", INCREMENTAL.replace("format: 'csv')", "format: 'csv', delimiter: ',')"))
    assert "how it is declared has changed since" in lab.pz("retry").err
    assert "lake.t" not in lab.nodes() and lab.stored("src.t") is None


def test_another_bound_of_the_watermark_is_another_read(lab):
    failed_once(lab)
    lab.write("pipelines/t.sql", INCREMENTAL.replace("where id >", "where id >="))
    lab.pz("retry")
    assert "provenance" not in lab.nodes()["src_src__t"] and "lake.t" not in lab.nodes()
    assert lab.stored("src.t") is None


def test_a_check_runs_again_on_the_rows_it_ran_on_although_the_watermark_has_moved(lab):
    lab.write("in/t.csv", "id,v\n1,a\n2,\n")
    lab.write(
        "pipelines/t.sql",
        f"INSERT INTO {{{{ sink('lake', 't', {APPEND}) }}}}\n"
        "select id, v from {{ source('src', 't', format: 'csv') }} where id > {{ watermark('src', 't') }}",
    )
    lab.write("pipelines/configs/t.yml", "pipeline: t\nchecks:\n  - not_null: [v]\n")
    lab.pz("run", code=1)
    assert lab.stored("src.t") == "2"
    lab.pz("retry", code=1)
    check = next(n for n in lab.nodes().values() if n["kind"] == "Check")
    assert check["rows"] == 1 and lab.nodes()["t"]["rows"] == 2
    assert lab.rows("out/t/*.parquet") == [1, 2] and lab.stored("src.t") == "2"


def test_rows_are_not_reused_once_the_watermark_was_set_back_below_where_they_begin(lab):
    only_bad = INCREMENTAL.replace("jammed", "late")
    lab.write(
        "connections.yml",
        "src: {connector: localfiles, root: in}\nlake: {connector: localfiles, root: out}\n"
        "late: {connector: localfiles, root: late}\n",
    )
    lab.write("in/t.csv", "id,v\n1,a\n2,b\n")
    lab.write("pipelines/t.sql", only_bad)
    lab.pz("run")
    lab.write("in/t.csv", "id,v\n1,a\n2,b\n3,c\n")
    shutil.move(lab.root / "late", lab.root / "kept")
    lab.write("late", "not a directory")
    lab.pz("run", code=1)
    (lab.root / "late").unlink()
    lab.pz("state", "set", "src.t", "--value", "1", "--yes")
    said = lab.pz("retry")
    assert "set back since" in said.err
    assert lab.rows("late/t/*.parquet") == [2, 3] and lab.stored("src.t") == "1"


def test_full_refresh_reuses_nothing_and_carries_nothing(lab):
    failed_once(lab)
    lab.write("in/t.csv", "id,v\n9,z\n")
    lab.pz("retry", "--full-refresh")
    assert "lake.t" not in lab.nodes() and "provenance" not in lab.nodes()["src_src__t"]
    assert lab.rows("jam/t/*.parquet") == [9] and lab.results()["fullRefresh"] is True


def test_the_retry_of_a_full_refresh_is_one(lab):
    (lab.root / "jam").unlink()
    lab.write("in/t.csv", "id,v\n1,a\n2,b\n")
    lab.write("pipelines/t.sql", INCREMENTAL)
    lab.pz("run")
    shutil.rmtree(lab.root / "jam")
    lab.write("jam", "not a directory")
    lab.pz("run", "--full-refresh", code=1)
    (lab.root / "jam").unlink()
    lab.pz("retry")
    assert lab.nodes()["src_src__t"]["provenance"] == "reused"
    assert lab.rows("jam/t/*.parquet") == [1, 2]


def test_only_what_failed_runs(lab):
    failed_once(lab)
    for name in ("a", "b"):
        lab.write(
            f"pipelines/{name}.sql",
            f"INSERT INTO {{{{ sink('lake', '{name}', strategy: 'replace', format: 'parquet') }}}}\nselect 1 as id",
        )
    lab.pz("retry")
    assert set(lab.nodes()) == {"src_src__t", "t", "lake.t", "jammed.t"}


def test_what_is_gone_from_the_project_is_told_and_there_is_nothing_to_retry(lab):
    failed_once(lab)
    (lab.root / "pipelines/t.sql").unlink()
    lab.write(
        "pipelines/other.sql",
        "INSERT INTO {{ sink('lake', 'o', strategy: 'replace', format: 'parquet') }}\nselect 1 as id",
    )
    said = lab.pz("retry")
    assert "no longer in the project" in said.err and "nothing to retry" in said.err
    assert len(list((lab.root / ".pz/runs").iterdir())) == 1


@pytest.mark.parametrize(("status", "code"), [("running", "PZ0503"), ("fatal", "PZ0504")])
def test_runs_that_cannot_be_retried(lab, status, code):
    failed_once(lab)
    path = lab.staging().with_name("run_results.json")
    path.write_text(path.read_text().replace("completed_with_failures", status))
    said = lab.pz("retry", code=2)
    assert code in said.err and lab.staging().parent.name in said.err


def test_a_damaged_newest_run_is_not_passed_over_for_an_older_one(lab):
    failed_once(lab)
    newer = lab.root / ".pz/runs/29990101T000000000Z-0000"
    newer.mkdir()
    (newer / "run_results.json").write_text("{")
    said = lab.pz("retry", code=2)
    assert "PZ0502" in said.err and newer.name in said.err


def test_a_node_that_stands_twice_in_the_results_counts_once(lab):
    failed_once(lab)
    path = lab.staging().with_name("run_results.json")
    found = json.loads(path.read_text())
    twin = {**next(n for n in found["nodes"] if n["name"] == "src_src__t"), "status": "failed"}
    path.write_text(json.dumps({**found, "nodes": [*found["nodes"], twin]}))
    lab.pz("retry")
    assert lab.nodes()["src_src__t"]["provenance"] == "reused"


def test_the_retry_of_a_test_moves_no_watermark(lab):
    lab.write("in/t.csv", "id,v\n1,\n")
    lab.write(
        "pipelines/t.sql",
        "select id, v from {{ source('src', 't', format: 'csv') }} where id > {{ watermark('src', 't') }}",
    )
    lab.write("pipelines/configs/t.yml", "pipeline: t\nchecks:\n  - not_null: [v]\n")
    lab.pz("test", code=1)
    lab.pz("retry", code=1)
    assert lab.nodes()["src_src__t"]["provenance"] == "reused" and lab.stored("src.t") is None


class TestValuesThatWereNotStored:
    @pytest.fixture
    def stuck(self, lab):
        """A run that delivered everything and could not write its watermark."""
        lab.write("in/t.csv", "id,v\n1,a\n2,b\n")
        lab.write("in/d.csv", "id\n1\n2\n")
        lab.write(
            "pipelines/t.sql",
            f"INSERT INTO {{{{ sink('lake', 't', {APPEND}) }}}}\n"
            "select t.id, v from {{ source('src', 't', format: 'csv') }} t join {{ source('src', 'd', format: 'csv') }}"
            " d on d.id = t.id where t.id > {{ watermark('src', 't') }}",
        )
        (lab.root / ".pz/state/watermarks.json.lock").mkdir(parents=True)
        said = lab.pz("run", code=1)
        assert "PZ0527" in said.err and "src.t" in said.err
        (lab.root / ".pz/state/watermarks.json.lock").rmdir()
        return lab

    def test_are_stored_and_nothing_is_read(self, stuck):
        assert stuck.results()["notStored"] == ["src.t"]
        shutil.rmtree(stuck.root / "in")
        said = stuck.pz("retry")
        assert "1 watermark is still to be stored" in said.err
        assert stuck.stored("src.t") == "2" and stuck.results()["status"] == "success"
        assert {n["provenance"] for n in stuck.nodes().values()} == {"carried_forward"}
        assert stuck.rows("out/t/*.parquet") == [1, 2]
        assert "nothing to retry" in stuck.pz("retry").err

    def test_are_tried_again_when_the_store_still_refuses(self, stuck):
        (stuck.root / ".pz/state/watermarks.json.lock").mkdir()
        assert "PZ0527" in stuck.pz("retry", code=1).err
        (stuck.root / ".pz/state/watermarks.json.lock").rmdir()
        stuck.pz("retry")
        assert stuck.stored("src.t") == "2"

    def test_are_dropped_at_or_below_what_is_stored_now(self, stuck):
        entry = {"cursor": "id", "type": "bigint", "value": "5", "runId": "x"}
        stuck.write(".pz/state/watermarks.json", json.dumps({"version": 1, "watermarks": {"src.t": entry}}))
        said = stuck.pz("retry")
        assert "is dropped" in said.err and "nothing to retry" in said.err
        assert stuck.stored("src.t") == "5" and len(list((stuck.root / ".pz/runs").iterdir())) == 1

    def test_are_stored_beside_a_flow_that_runs_again(self, lab):
        for name, place in (("a", "lake"), ("b", "jammed")):
            lab.write(f"in/{name}.csv", "id\n1\n")
            lab.write(
                f"pipelines/{name}.sql",
                f"INSERT INTO {{{{ sink('{place}', '{name}', {APPEND}) }}}}\n"
                f"select id from {{{{ source('src', '{name}', format: 'csv') }}}}\n"
                f"where id > {{{{ watermark('src', '{name}') }}}}",
            )
        (lab.root / ".pz/state/watermarks.json.lock").mkdir(parents=True)
        lab.pz("run", "--all", code=1)
        (lab.root / ".pz/state/watermarks.json.lock").rmdir()
        lab.pz("retry", code=1)
        assert (lab.stored("src.a"), lab.stored("src.b")) == ("1", None)
        (lab.root / "jam").unlink()
        lab.pz("retry")
        assert (lab.stored("src.a"), lab.stored("src.b")) == ("1", "1")
        assert lab.rows("out/a/*.parquet") == lab.rows("jam/b/*.parquet") == [1]

    def test_stay_where_an_output_was_edited_since(self, stuck):
        path = stuck.root / "pipelines/t.sql"
        path.write_text(path.read_text().replace("format: 'parquet'", "format: 'csv'"))
        said = stuck.pz("retry")
        assert "the watermark stays" in said.err and stuck.stored("src.t") is None
