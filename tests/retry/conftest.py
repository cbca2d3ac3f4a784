from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pz_core.cli.main import invoke


@dataclass
class Said:
    code: int
    out: str
    err: str


@dataclass
class Lab:
    """A project in a folder of its own, and the command line called in this process."""

    root: Path
    call: Callable[..., Said]
    said: list[Said] = field(default_factory=list)

    def put(self, **files: str) -> None:
        for name, text in files.items():
            self.write(name.replace("__", "/").replace("_sql", ".sql").replace("_csv", ".csv"), text)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def pz(self, *argv: str, code: int = 0) -> Said:
        said = self.call(*argv)
        assert said.code == code, (argv, said)
        return said

    def results(self) -> dict[str, Any]:
        newest = max(d for d in (self.root / ".pz" / "runs").iterdir())
        found: dict[str, Any] = json.loads((newest / "run_results.json").read_text())
        return found

    def nodes(self) -> dict[str, dict[str, Any]]:
        return {node["name"]: node for node in self.results()["nodes"]}

    def staging(self) -> Path:
        return max(d for d in (self.root / ".pz" / "runs").iterdir()) / "staging.duckdb"

    def stored(self, key: str) -> str | None:
        path = self.root / ".pz" / "state" / "watermarks.json"
        if not path.exists():
            return None
        entry = json.loads(path.read_text())["watermarks"].get(key)
        return None if entry is None else str(entry["value"])

    def rows(self, where: str) -> list[Any]:
        with duckdb.connect() as connection:
            path = str(self.root / where)
            return [r[0] for r in connection.execute(f"select id from read_parquet('{path}') order by 1").fetchall()]


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)

    def call(*argv: str) -> Said:
        capsys.readouterr()
        code = invoke(argv)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    made = Lab(tmp_path, call)
    made.write("project.yml", "name: again\nversion: 1.0.0\n")
    made.write(
        "connections.yml",
        "src: {connector: localfiles, root: in}\n"
        "lake: {connector: localfiles, root: out}\n"
        "jammed: {connector: localfiles, root: jam}\n"
        "db: {connector: duckdb, path: src.duckdb}\n",
    )
    made.write("jam", "not a directory")
    return made
