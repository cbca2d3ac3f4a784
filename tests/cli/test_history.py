"""``pz runs`` and ``pz clean``: they must work on a project that no longer loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

OLD, NEW = "20200101T000000000Z-0001", "20200102T000000000Z-0002"


def _run(root: Path, run_id: str, status: str, nodes: list[dict[str, Any]], finished: str | None) -> Path:
    folder = root / ".pz" / "runs" / run_id
    folder.mkdir(parents=True)
    document = {
        "version": 1,
        "runId": run_id,
        "status": status,
        "startedAt": "2020-01-01T00:00:00.000Z",
        "nodes": nodes,
    }
    if finished:
        document["finishedAt"] = finished
    (folder / "run_results.json").write_text(json.dumps(document))
    (folder / "staging.duckdb").write_bytes(b"x" * 2048)
    return folder


def _node(name: str, status: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "kind": "Pipeline",
        "name": name,
        "status": status,
        "rows": 0,
        "durationMs": 1,
        "error": None,
        **more,
    }


@pytest.fixture
def history(tmp_path: Path) -> Path:
    (tmp_path / "project.yml").write_text("name: [broken")
    nodes = [_node("a", "success", provenance="reused"), _node("b", "failed"), _node("c", "skipped")]
    _run(tmp_path, OLD, "completed_with_failures", nodes, "2020-01-01T00:01:30.000Z")
    _run(tmp_path, NEW, "running", [], None)
    return tmp_path


def test_the_newest_run_stands_first(pz: Any, history: Path) -> None:
    said = pz("runs")
    assert said.code == 0
    head, newest, oldest = said.out.splitlines()
    assert " ".join(head.split()) == "RUN ID STATUS STARTED AT DURATION OK FAILED SKIPPED PROVENANCE"
    assert newest.split() == [NEW, "running", "2020-01-01T00:00:00.000Z", "-", "0", "0", "0", "-"]
    assert oldest.split() == [
        OLD,
        "completed_with_failures",
        "2020-01-01T00:00:00.000Z",
        "90s",
        "1",
        "1",
        "1",
        "1",
        "reused",
    ]


def test_json_is_one_array_with_explicit_nulls(pz: Any, history: Path) -> None:
    found = json.loads(pz("runs", "--json").out)
    assert found[0]["finishedAt"] is None and found[0]["durationMs"] is None
    assert list(found[1].items()) == [
        ("runId", OLD),
        ("status", "completed_with_failures"),
        ("startedAt", "2020-01-01T00:00:00.000Z"),
        ("finishedAt", "2020-01-01T00:01:30.000Z"),
        ("durationMs", 90_000),
        ("succeeded", 1),
        ("failed", 1),
        ("skipped", 1),
        ("reused", 1),
        ("carriedForward", 0),
    ]
    assert [run["runId"] for run in json.loads(pz("runs", "--json", "--limit", "1").out)] == [NEW]


def test_an_empty_history(pz: Any, tmp_path: Path) -> None:
    (tmp_path / "project.yml").write_text("name: x\nversion: 1\n")
    assert pz("runs").out == "no runs found\n"
    assert json.loads(pz("runs", "--json").out) == []


@pytest.mark.parametrize("limit", ["0", "-3"])
def test_a_limit_below_one_is_refused(pz: Any, history: Path, limit: str) -> None:
    said = pz("runs", "--limit", limit)
    assert said.code == 2 and said.out == "" and "error PZ0534: " in said.err and limit in said.err


@pytest.mark.parametrize("verb", ["runs", "clean"])
def test_a_stray_history_without_a_project_is_not_touched(pz: Any, history: Path, verb: str) -> None:
    (history / "project.yml").unlink()
    said = pz(verb)
    assert said.code == 2 and "PZ0101" in said.err
    assert (history / ".pz" / "runs" / OLD / "staging.duckdb").exists()


def test_clean_spares_the_newest_and_a_dry_run_spares_all(pz: Any, history: Path) -> None:
    said = pz("clean", "--dry-run")
    assert said.code == 0 and "would remove 1 staging database, would free 2 KB" in said.out
    assert (history / ".pz" / "runs" / OLD / "staging.duckdb").exists()
    said = pz("clean", "--project", str(history))
    assert said.code == 0 and f"removed {OLD}" in said.out and "freed 2 KB" in said.out
    assert not (history / ".pz" / "runs" / OLD / "staging.duckdb").exists()
    assert (history / ".pz" / "runs" / OLD / "run_results.json").exists()
    assert pz("clean").out == "nothing to clean\n"


def test_purging_everything_warns_that_nothing_can_be_retried(pz: Any, history: Path) -> None:
    said = pz("clean", "--purge", "--keep-last", "0")
    assert said.code == 0 and "retry" in said.err
    assert not list((history / ".pz" / "runs").iterdir())


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--keep-last", "1", "--older-than", "1d"], "PZ0511"),
        (["--keep-last", "-1"], "PZ0512"),
        (["--keep-last", "two"], "PZ0512"),
        (["--older-than", "yesterday"], "PZ0512"),
    ],
)
def test_selectors_that_make_no_sense_are_refused(pz: Any, history: Path, argv: list[str], code: str) -> None:
    said = pz("clean", *argv)
    assert said.code == 2 and code in said.err
    assert (history / ".pz" / "runs" / OLD / "staging.duckdb").exists()
