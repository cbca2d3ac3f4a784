from __future__ import annotations

import json

from pz_core import __version__
from pz_core.compile.artifacts import compiled_text, write_target
from pz_core.compile.select import select

PROJECT = {
    "t": "INSERT INTO [{{ sink('yard','b', strategy: 'merge', keys: ['x'], format: 'parquet') }}, "
    "{{ sink('lake','a', strategy: 'replace') }}]\r\nselect 1 as x from {{ source('yard','ü.c') }}\r\n"
    "where ts > {{ watermark('yard','ü.c') }}  ;\r\n\r\n",
    "u": "select 'é' as y",
}
CONFIGS = {"u": "tags: [z, y]\nchecks:\n  - row_count: {min: 1}\n"}


def fixed(text: str) -> str:
    return text.replace("strategy: 'replace'", "strategy: 'append', duplicates: 'accept'")


def test_compiled_file_has_sorted_headers_and_one_line_end(lab):
    lab.write({k: fixed(v) for k, v in PROJECT.items()}, configs=CONFIGS)
    text = compiled_text(lab.graph().named("t"))
    head, sql = text.split("select", 1)
    assert head == (
        "-- incremental: yard.ü.c (cursor ts, declared in SQL)\n"
        "-- output: lake.a (append)\n"
        "-- output: yard.b (parquet, merge)\n"
    )
    assert sql.endswith("\n") and not sql.endswith("\n\n") and ";" not in sql and "\r" not in sql


def test_manifest_bytes(make):
    lab = make({"u": "select 'é' as y"}, configs=CONFIGS)
    target = write_target(lab.graph())
    content = (target / "manifest.json").read_bytes()
    u, check = lab.graph().nodes
    assert content.decode() == (
        "{\n"
        '  "project": "depot",\n'
        '  "version": "0.1.0",\n'
        f'  "generatedBy": "pz-core {__version__}",\n'
        '  "nodes": [\n'
        "    {\n"
        f'      "id": "{u.id}",\n'
        '      "kind": "pipeline",\n'
        '      "name": "u",\n'
        '      "dependsOn": [],\n'
        '      "tags": [\n'
        '        "z",\n'
        '        "y"\n'
        "      ],\n"
        '      "file": "pipelines/u.sql"\n'
        "    },\n"
        "    {\n"
        f'      "id": "{check.id}",\n'
        '      "kind": "check",\n'
        '      "name": "check_u_row_count",\n'
        '      "dependsOn": [\n'
        f'        "{u.id}"\n'
        "      ],\n"
        '      "tags": [],\n'
        '      "file": "pipelines/configs/u.yml"\n'
        "    }\n"
        "  ]\n"
        "}\n"
    )
    again = make({"u": "select 'é' as y"}, configs=CONFIGS)
    assert (write_target(again.graph()) / "manifest.json").read_bytes() == content


def test_files_of_pipelines_that_are_gone_are_removed_and_others_kept(lab):
    lab.write({k: fixed(v) for k, v in PROJECT.items()}, configs=CONFIGS)
    target = write_target(lab.graph())
    assert sorted(p.name for p in (target / "compiled").iterdir()) == ["t.sql", "u.sql"]
    (target / "compiled" / "notes.txt").write_text("mine")
    (lab.root / "pipelines/u.sql").write_text("select 2 as y")
    (lab.root / "pipelines/t.sql").unlink()
    write_target(lab.graph())
    assert sorted(p.name for p in (target / "compiled").iterdir()) == ["notes.txt", "u.sql"]
    assert (target / "compiled/u.sql").read_text() == "select 2 as y\n"


def test_a_selection_is_exact_and_removes_no_unselected_file(lab):
    lab.write({k: fixed(v) for k, v in PROJECT.items()}, configs=CONFIGS)
    graph = lab.graph()
    target = write_target(graph)
    (target / "compiled/u.sql").write_text("stale")
    (target / "compiled/t.sql").write_text("stale")
    write_target(graph, select(graph, expression="u"))
    assert (target / "compiled/t.sql").read_text() == "stale"
    assert (target / "compiled/u.sql").read_text() == "select 'é' as y\n"
    manifest = json.loads((target / "manifest.json").read_text())
    assert [n["name"] for n in manifest["nodes"]] == ["u"]


def test_no_temporary_file_is_left(lab):
    target = write_target(lab.write({"u": "select 1 as x"}).graph())
    assert sorted(p.name for p in target.rglob("*")) == ["compiled", "manifest.json", "u.sql"]
