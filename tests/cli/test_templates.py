"""What the templates promise, played with the real rooms below."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pz_core.cli.templates import TEMPLATES


@pytest.fixture
def sample(pz: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert pz("init", "demo", "--template", "sample").code == 0
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_every_template_validates_without_a_word(pz: Any, template: str) -> None:
    assert pz("init", "demo", "--template", template).code == 0
    said = pz("validate", "--project", "demo")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("validation passed (")


def test_the_sample_has_twelve_nodes(pz: Any, sample: Path) -> None:
    before = sorted(sample.rglob("*"))
    nodes = json.loads(pz("ls", "--json").out)
    kinds = Counter(node["kind"] for node in nodes)
    assert kinds == {"source_load": 3, "pipeline": 4, "check": 2, "sink_write": 3}
    assert sorted(sample.rglob("*")) == before, "ls writes nothing"
    lines = pz("ls").out.splitlines()
    assert len(lines) == 12
    row = next(line for line in lines if " orders_enriched " in line)
    assert row.split() == ["pipeline", "orders_enriched", "daily"]
    assert len({line.index(node["name"]) for line, node in zip(lines, nodes, strict=True)}) == 1, "columns are aligned"
    assert [n["name"] for n in json.loads(pz("ls", "--json", "--select", "tag:daily").out)] == ["orders_enriched"]


def test_the_sample_runs_offline(pz: Any, sample: Path) -> None:
    said = pz("run", "--all")
    assert said.code == 0 and said.err == ""
    assert len([line for line in said.out.splitlines() if line.startswith("ok ")]) == 12
    assert ": 12 succeeded, 0 failed, 0 skipped (.pz/runs/" in said.out
    with (sample / "out" / "order_totals" / "order_totals.csv").open() as file:
        assert [row["country"] for row in csv.DictReader(file)] == ["FR", "IT", "NO"]
    assert "read 13, staged 13, written 10, rejected 0" in said.out


def test_a_bare_run_of_the_sample_asks_which_flow_is_meant(pz: Any, sample: Path) -> None:
    said = pz("run")
    assert said.code == 2 and said.out == "" and "error PZ0215: " in said.err
    assert not (sample / ".pz" / "runs").exists()


def test_json_events_alone_on_stdout(pz: Any, sample: Path) -> None:
    said = pz("run", "product_catalog", "--log-format", "json")
    events = [json.loads(line)["event"] for line in said.out.splitlines()]
    assert events[0] == "run_started" and events.count("node_completed") == 3 and "run_completed" in events
    assert "3 succeeded" in said.err


def test_an_empty_project_has_nothing_to_run(pz: Any, tmp_path: Path) -> None:
    pz("init", "demo")
    said = pz("run", "--project", "demo")
    assert said.code == 0 and said.err == "note: there is nothing to run\n"
    assert not (tmp_path / "demo" / ".pz" / "runs").exists()


def test_compile_says_what_it_made(pz: Any, sample: Path) -> None:
    said = pz("compile")
    assert said.code == 0 and said.out == "compiled 4 pipelines, 12 nodes (.pz/target)\n"
    assert (sample / ".pz" / "target" / "manifest.json").is_file()
    document = json.loads(pz("compile", "--json").out)
    assert document["project"] == "demo" and len(document["nodes"]) == 12
    assert next(n for n in document["nodes"] if n["name"] == "stg_orders")["file"] == "pipelines/stg_orders.sql"


def test_plan_shows_edges_guarantees_and_memory_but_no_checks(pz: Any, sample: Path) -> None:
    said = pz("plan")
    assert said.code == 0
    rows = [line.split()[:2] for line in said.out.splitlines()[:10]]
    assert ["native_scan", "src_shop__orders"] in rows and ["native_copy", "lake.order_totals"] in rows
    assert "check_" not in said.out
    assert "guarantee: lake.order_totals effectively once" in said.out
    assert "memory budget: ~1.00 GB (duckdb unset" in said.out and "overhead 256MB)" in said.out
    assert not (sample / ".pz" / "runs").exists() and not (sample / "out").exists()


def test_a_choice_cuts_the_table_of_the_plan_and_not_the_file(pz: Any, sample: Path) -> None:
    said = pz("plan", "product_catalog")
    assert "lake.product_catalog" in said.out and "orders" not in said.out
    assert "note: 9 nodes outside the selection" in said.err
    assert len(json.loads((sample / ".pz" / "target" / "plan.json").read_text())["nodes"]) == 12
    document = json.loads(pz("plan", "product_catalog", "--json").out)
    assert [n["name"] for n in document["nodes"]] == ["src_shop__products", "product_catalog", "lake.product_catalog"]
    assert document["memoryBudget"]["totalBytes"] > 0 and document["version"] == 1


def test_plan_prints_declared_retries_and_limits(pz: Any, sample: Path) -> None:
    with (sample / "connections.yml").open("a") as file:
        file.write("  max_concurrency: 2\n  retry: {max_attempts: 7, base_delay: 2s, max_delay: 1m}\n")
    said = pz("plan")
    assert any(line.startswith("retry: lake.order_totals at most 7 attempts") for line in said.out.splitlines())
    assert "retry: src_shop" not in said.out
    assert any(line.startswith("max_concurrency: ") and line.endswith(" 2") for line in said.out.splitlines())


def test_validate_as_json_and_with_datasets_that_have_no_contract(pz: Any, sample: Path) -> None:
    document = json.loads(pz("validate", "--json").out)
    assert (document["passed"], document["pipelines"], document["connections"]) == (True, 4, 2)
    (sample / "pipelines" / "loose.sql").write_text("select * from {{ source('shop', 'loose', format: 'csv') }}\n")
    said = pz("validate")
    assert (
        said.code == 0
        and "shop.loose" in said.err
        and said.out == "validation passed (5 pipelines, 2 connections checked)\n"
    )


def test_validate_connect_reaches_the_places(pz: Any, sample: Path) -> None:
    said = pz("validate", "--connect", "--json")
    assert said.code == 0 and json.loads(said.out)["connected"] is True


def test_connectors_of_the_project(pz: Any, sample: Path) -> None:
    rows = json.loads(pz("connectors", "--json").out)
    assert [row["name"] for row in rows] == ["localfiles"], "project.yml lists one package"
    assert rows[0]["package"] == "pz-connector-localfiles"
    assert rows[0]["tiers"]["source"] == ["native", "universal"] and "native_read" in rows[0]["flags"]
    said = pz("connectors")
    assert said.out.splitlines()[0].split() == ["NAME", "PACKAGE", "VERSION", "TIERS", "FLAGS"]


def test_plugins_lists_every_kind_and_what_the_project_does_not_list(pz: Any, sample: Path) -> None:
    rows = json.loads(pz("plugins", "list", "--json").out)
    named = {(row["kind"], row["name"]): row for row in rows}
    assert named["strategy", "merge"]["usable"] and named["strategy", "merge"]["summary"]
    assert not named["connector", "duckdb"]["usable"]
    assert json.loads(pz("plugins", "--json").out) == rows
    assert "not listed in project.yml" in pz("plugins").out
