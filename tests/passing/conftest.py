"""A project of files, and the command line called in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pz_core.cli.main import invoke

COPY = "INSERT INTO {{ sink('lake', 'made', strategy: 'replace', format: 'parquet') }}\n"
READ = "{{ source('files', 'rows') }}"


@dataclass
class Lab:
    root: Path
    call: Callable[..., tuple[int, str, str]]

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def pipeline(self, select: str, *, sink: str = COPY, more: str = "", materialization: str = "view") -> None:
        """The pipeline ``p``; ``@`` stands for its source."""
        self.write("pipelines/p.sql", sink + select.replace("@", READ) + "\n")
        self.write("pipelines/configs/p.yml", f"pipeline: p\nmaterialization: {materialization}\n{more}")

    def pz(self, *argv: str, code: int = 0) -> str:
        found, out, err = self.call(*argv)
        assert found == code, (argv, found, out, err)
        return out + err

    def contract(self) -> None:
        """Declare the types of the dataset's columns."""
        path = self.root / "connections.yml"
        path.write_text(
            path.read_text().replace("format: csv}", "format: csv, columns: {id: int, n: int, label: varchar}}")
        )

    def passes(self) -> bool:
        self.pz("plan")
        nodes = json.loads((self.root / ".pz/target/plan.json").read_text())["nodes"]
        return any("passesInto" in node for node in nodes)

    def runs(self) -> list[Path]:
        return sorted((self.root / ".pz/runs").iterdir())

    def nodes(self) -> dict[str, dict[str, Any]]:
        found = json.loads((self.runs()[-1] / "run_results.json").read_text())
        return {node["kind"]: node for node in found["nodes"]}

    def staged(self) -> list[str]:
        """Relations that the newest run has left in its file."""
        with duckdb.connect() as connection:
            connection.execute(f"attach '{self.runs()[-1] / 'staging.duckdb'}' as run (read_only)")
            sql = "select table_name from duckdb_tables() where database_name = 'run' union all "
            sql += "select view_name from duckdb_views() where database_name = 'run' and not internal"
            return sorted(str(row[0]) for row in connection.execute(sql).fetchall())

    def made(self, sql: str = "select * from made") -> list[Any]:
        with duckdb.connect() as connection:
            connection.execute(f"create view made as from '{self.root}/out/made/made.parquet'")
            return connection.execute(sql).fetchall()


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = invoke(argv)
        said = capsys.readouterr()
        return code, said.out, said.err

    made = Lab(tmp_path, call)
    made.write("project.yml", "name: through\nversion: 1.0.0\n")
    made.write(
        "connections.yml",
        "files: {connector: localfiles, root: in, entities: {rows: {read: {format: csv}}}}\n"
        "lake: {connector: localfiles, root: out}\n"
        "jammed: {connector: localfiles, root: jam}\n"
        "mart: {connector: duckdb, path: mart.duckdb}\n",
    )
    made.write("in/rows.csv", "id,n,label\n1,10,a\n2,20,b\n3,30,c\n")
    return made
