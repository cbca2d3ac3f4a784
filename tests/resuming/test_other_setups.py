"""A retry after the project was set up otherwise: what belongs to other places or values is not taken over."""

from __future__ import annotations

import json
import shutil

import pytest

from pz_core.errors import PzError
from pz_core.state.local import LocalState

APPEND = "strategy: 'append', duplicates: 'accept', format: 'parquet'"
BOTH = f"[{{{{ sink('lake', 't', {APPEND}) }}}}, {{{{ sink('jammed', 't', {APPEND}) }}}}]"


def places(lab, src="in", lake="out", extra=""):
    lab.write(
        "connections.yml",
        f"src: {{connector: localfiles, root: {src}}}\nlake: {{connector: localfiles, root: {lake}}}\n"
        f"jammed: {{connector: localfiles, root: jam}}\n{extra}",
    )


@pytest.fixture
def files(lab):
    places(lab)
    lab.write("jam", "not a directory")
    lab.write("in/t.csv", "id,v\n1,a\n2,b\n")
    lab.write("elsewhere/t.csv", "id,v\n7,x\n8,y\n9,z\n")
    lab.pipeline(
        "t", BOTH, "select id, v from {{ source('src', 't', format: 'csv') }} where id > {{ watermark('src', 't') }}"
    )
    return lab


def stored(lab, key="src.t"):
    path = lab.root / ".pz" / "state" / "watermarks.json"
    entry = json.loads(path.read_text())["watermarks"].get(key) if path.exists() else None
    return None if entry is None else entry["value"]


def failed(lab, *argv):
    lab.pz("run", *argv, code=1)
    (lab.root / "jam").unlink()


def test_rows_of_another_root_are_not_reused(files):
    failed(files)
    places(files, src="elsewhere")
    said = files.pz("retry")
    assert "connection 'src' is set up otherwise than in run" in said.err
    assert files.rows("jam/t/*.parquet") == [7, 8, 9]
    assert "lake.t" not in files.nodes() and stored(files) is None, "lake has rows of the other root"


def test_the_same_place_written_with_other_comments_order_and_limits_is_reused(files):
    failed(files)
    files.write(
        "connections.yml",
        "# moved about\nlake: {root: out, connector: localfiles}\njammed: {root: jam, connector: localfiles}\n"
        "src: {root: in, connector: localfiles, max_concurrency: 1, retry: {max_attempts: 2}}\n",
    )
    shutil.rmtree(files.root / "in")
    files.pz("retry")
    assert files.nodes()["src_src__t"]["provenance"] == "reused" and stored(files) == "2"


def test_an_output_that_now_leads_elsewhere_is_not_carried_forward(files):
    failed(files)
    places(files, lake="lake2")
    said = files.pz("retry")
    assert "lake.t: what was written is not carried forward: connection 'lake' is set up otherwise" in said.err
    assert files.nodes()["src_src__t"]["provenance"] == "reused" and "lake.t" not in files.nodes()
    assert stored(files) is None, "the place that lake leads to now has no row"
    files.pz("run")
    assert files.rows("lake2/t/*.parquet") == [1, 2] and stored(files) == "2"


def test_another_connector_behind_the_name_is_another_place(lab):
    lab.world.parts["t"] = {"only": [5]}
    lab.write("jam", "not a directory")
    lab.pipeline("t", BOTH, "select id, v from {{ source('src', 't') }}")
    failed(lab)
    lab.connections(connector="plain")
    lab.world.parts["t"] = {"only": [6]}
    assert "connection 'src' is set up otherwise" in lab.pz("retry").err
    assert lab.rows("jam/t/*.parquet") == [6]


def test_a_variable_of_the_environment_inside_a_connection_counts(files, monkeypatch):
    monkeypatch.setenv("ROOT", "in")
    places(files, src='"${ROOT}"')
    failed(files)
    monkeypatch.setenv("ROOT", "elsewhere")
    files.pz("retry")
    assert files.rows("jam/t/*.parquet") == [7, 8, 9]


def test_a_renewed_password_is_the_same_place_and_no_secret_is_recorded(lab):
    lab.world.parts["t"] = {"a": [1], "b": [2]}
    lab.pipeline("t", "{{ sink('lake', 't', strategy: 'replace', format: 'parquet') }}", "select id from "
                 "{{ source('src', 't') }}")  # fmt: skip
    lab.world.fail("t", "b", lab.places.final())
    lab.pz("run", code=1)
    text = (lab.last() / "run_results.json").read_text()
    before = json.loads(text)["connections"]["src"]
    assert "pw-0123456789" not in text and len(before) == 16
    lab.connections(password="another-9876543210")
    lab.world.reads.clear()
    lab.pz("retry")
    assert [part for _, part, _ in lab.world.reads] == ["b"] and lab.results()["connections"]["src"] == before


def test_a_run_that_does_not_tell_how_it_was_set_up_is_not_relied_on(files):
    failed(files)
    path = files.last() / "run_results.json"
    found = json.loads(path.read_text())
    del found["connections"]
    path.write_text(json.dumps(found))
    assert "does not tell how connection 'src' was set up" in files.pz("retry").err
    assert "provenance" not in files.nodes()["src_src__t"]


def test_a_watermark_of_another_place_is_not_stored_afterwards(files, monkeypatch):
    (files.root / "jam").unlink()
    write = LocalState.write

    def broken(self, *rest):
        raise PzError("PZ0532", "the disk is full: 'watermarks.json'", hint="free space")

    monkeypatch.setattr(LocalState, "write", broken)
    files.pz("run", code=1)
    monkeypatch.setattr(LocalState, "write", write)
    places(files, src="elsewhere")
    said = files.pz("retry")
    assert (
        "the watermark recorded by run" in said.err and "is dropped: connection 'src' is set up otherwise" in said.err
    )
    assert stored(files) is None


def test_values_from_outside_are_named_and_what_is_made_of_them_is_made_anew(files):
    files.write("project.yml", "name: again\nversion: 1.0.0\nvars: {least: 2}\n")
    files.pipeline(
        "t", BOTH, "select id, v from {{ source('src', 't', format: 'csv') }} where id >= {{ var('least') }}"
    )
    failed(files, "--vars", '{"least": 1}')
    said = files.pz("retry")
    assert "other values of variables from outside (least)" in said.err
    assert "t has changed since run" in said.err and "it is computed as it is now" in said.err
    assert files.rows("out/t/*.parquet") == [1, 2], "nobody carried forward, nobody wrote it again"
    assert files.rows("jam/t/*.parquet") == [2] and "lake.t" not in files.nodes()


def test_the_same_values_from_outside_are_no_news(files, monkeypatch):
    failed(files)
    assert "values of variables" not in files.pz("retry").err


def test_a_retry_of_a_retry_still_knows_the_place(files):
    failed(files)
    files.write("jam", "not a directory")
    files.pz("retry", code=1)
    (files.root / "jam").unlink()
    places(files, src="elsewhere")
    assert "connection 'src' is set up otherwise" in files.pz("retry").err
    assert files.rows("jam/t/*.parquet") == [7, 8, 9]


def test_rows_that_the_watermark_has_passed_since_are_not_delivered_again(files):
    (files.root / "jam").unlink()
    files.pz("run")
    shutil.move(files.root / "jam", files.root / "kept")
    files.write("jam", "not a directory")
    files.write("in/t.csv", "id,v\n1,a\n2,b\n3,c\n4,d\n5,e\n")
    failed(files)
    files.pz("state", "set", "src.t", "--value", "4", "--yes")
    assert "its watermark was moved on since" in files.pz("retry").err
    assert files.rows("jam/t/*.parquet") == [5]
