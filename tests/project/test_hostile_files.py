"""Files that are no text, no file, or not where they should be: refused by name and line, never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and links of POSIX")


def test_a_nul_in_sql_is_refused_since_duckdb_would_stop_reading_there(folder) -> None:
    folder.write({"pipelines/a.sql": "select 1 as a\nfrom t\nwhere b > 0 \0 and c > 0"})
    assert folder.faults() == ["PZ0104 pipelines/a.sql:3"]


@pytest.mark.parametrize("text", ['vars: {a: "x\\0y"}\n', 'vars: {"a\\0b": 1}\n', 'vars:\n  a: ["\\u0000"]\n'])
def test_a_nul_escape_in_yaml_is_refused_at_its_line(folder, text: str) -> None:
    folder.write({"project.yml": "name: depot\nversion: 0.1.0\n" + text})
    (fault,) = folder.faults()
    assert fault.startswith("PZ0101 project.yml:")


def test_a_nul_in_vars_is_refused_by_code(folder) -> None:
    for text in ('{"a": "x\\u0000"}', '{"a": ["\\u0000"]}', '{"a\\u0000": 1}'):
        assert [e.code for e in folder.refusal(text)] == ["PZ0102"]


def test_a_file_in_the_place_of_the_pipelines_folder_is_told(folder) -> None:
    folder.write({"pipelines": "select 1"})
    assert folder.faults() == ["PZ0101 pipelines"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_a_folder_that_cannot_be_read_is_told_and_hides_no_other_fault(folder) -> None:
    folder.write({"pipelines/sub/a.sql": "select 1 as a", "pipelines/1.sql": "select 1 as a"})
    (folder.root / "pipelines/sub").chmod(0)
    try:
        assert folder.faults() == ["PZ0136 pipelines/1.sql", "PZ0101 pipelines/sub"]
    finally:
        (folder.root / "pipelines/sub").chmod(0o755)


def test_an_unreadable_folder_is_a_fault(folder, monkeypatch) -> None:
    folder.write({"pipelines/sub/a.sql": "select 1 as a"})
    closed = str(folder.root.resolve() / "pipelines/sub")
    real = os.scandir

    def scandir(path):
        if str(path) == closed:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert folder.faults() == ["PZ0101 pipelines/sub"]


@pytest.mark.parametrize("name", ["connections.yml", "pipelines/a.sql", "pipelines/configs/a.yml"])
def test_a_pipe_under_the_name_of_a_file_is_refused_and_not_waited_for(folder, name: str) -> None:
    path: Path = folder.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)
    assert folder.faults() == [f"PZ0101 {name}"]


@pytest.mark.parametrize("name", ["connections.yml", "project.yml"])
def test_a_link_that_leads_nowhere_is_no_absent_file(folder, name: str) -> None:
    path: Path = folder.root / name
    path.unlink(missing_ok=True)
    path.symlink_to("gone")
    assert folder.faults() == [f"PZ0101 {name}"]


@pytest.mark.parametrize("size", ["banana", "4XB", "-1GB", "9" * 30, "1e9"])
def test_a_memory_limit_that_is_no_size_is_told_with_all_other_faults_of_its_file(folder, size: str) -> None:
    folder.write(
        {"project.yml": f"name: depot\nversion: 0.1.0\nengine:\n  duckdb:\n    memory_limit: {size}\nnope: 1\n"}
    )
    assert folder.faults() == ["PZ0120 project.yml:5", "PZ0101 project.yml:6"]
