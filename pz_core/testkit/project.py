"""Projects in a folder of a test, and ``pz`` run on them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from pz_core.testkit.rows import Rows, read_rows
from pz_core.values import quote_identifier, quote_literal, quote_path

_CODE = re.compile(r"\bPZ\d{4}\b")
_LINE = re.compile(r"^(error|warning) (PZ\d{4}): ", re.MULTILINE)
_IN_PROCESS = threading.RLock()

#: What a project needs at least; :meth:`ProjectTester.write` fills it in where a test says nothing.
PROJECT = {"name": "kit", "version": "1.0.0", "pz": ">=1.0 <2.0"}


class Said(Struct, frozen=True):
    """What a verb printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> tuple[str, ...]:
        """Codes of the error lines, in order."""
        return tuple(found[2] for found in _LINE.finditer(self.err) if found[1] == "error")

    @property
    def warnings(self) -> tuple[str, ...]:
        """Codes of the warning lines, in order."""
        return tuple(found[2] for found in _LINE.finditer(self.err) if found[1] == "warning")

    @property
    def codes(self) -> frozenset[str]:
        """Every code that stands anywhere on stderr."""
        return frozenset(_CODE.findall(self.err))

    def json(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)

    def events(self) -> list[dict[str, Any]]:
        """The events on stdout of a verb that was run with ``--log-format json``."""
        return [json.loads(line) for line in self.out.splitlines() if line.startswith("{")]


class ProjectTester:
    """A project in a folder, made from dictionaries and texts::

        project = ProjectTester(tmp_path)
        project.write({
            "connections.yml": {"lake": {"connector": "localfiles", "root": "lake"}},
            "pipelines/a.sql": "INSERT INTO {{ sink('lake', 'a') }} SELECT 1 AS n",
        })
        said = project.run("run")
        assert said.code == 0, said.err
        assert project.rows("lake/a/*.parquet").texts == (("1",),)

    Args:
        folder: where the project goes.
        env: variables of the environment, beside those of this process; ``None`` takes one away.
    """

    def __init__(self, folder: Path, env: Mapping[str, str | None] | None = None) -> None:
        self.folder = folder
        self.env: dict[str, str | None] = {"CI": "true", "PZ_DEBUG": None, **(env or {})}
        if not (folder / "project.yml").exists():
            self.write({"project.yml": PROJECT})

    def write(self, files: Mapping[str, Any]) -> None:
        """Write files by their path below the project: texts and bytes as they are, anything else as YAML.

        ``project.yml`` given as a mapping is completed with a name and a version.
        """
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                path.write_bytes(content)
                continue
            if not isinstance(content, str):
                made = {**PROJECT, **content} if name == "project.yml" else content
                content = yaml.safe_dump(made, sort_keys=False, allow_unicode=True)
            path.write_text(content, encoding="utf-8", newline="")

    def run(
        self, *argv: str, process: bool = False, env: Mapping[str, str | None] | None = None, timeout_s: float = 120.0
    ) -> Said:
        """Run ``pz`` in the project.

        Args:
            argv: what stands after ``pz``.
            process: whether it is run as a process of its own, as a user runs it; else in this one, which is quicker,
                one at a time.
            env: further variables of the environment for this call.
            timeout_s: seconds that a process may take.

        Raises:
            subprocess.TimeoutExpired: if the process took longer; it is killed.
        """
        return self._process(argv, env, timeout_s) if process else self._here(argv, env)

    def start(self, *argv: str, env: Mapping[str, str | None] | None = None) -> subprocess.Popen[str]:
        """Start ``pz`` as a process of its own, to be sent signals or killed; its streams are pipes."""
        return subprocess.Popen(
            [sys.executable, "-m", "pz_core", *argv],
            cwd=self.folder, env=self._environment(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8",
        )  # fmt: skip

    def runs(self) -> list[Path]:
        """Folders of the runs so far, oldest first."""
        return sorted(p for p in (self.folder / ".pz" / "runs").glob("*") if p.is_dir())

    def results(self, run: int = -1) -> dict[str, Any]:
        """``run_results.json`` of a run: of the latest, or by its place among all.

        Raises:
            IndexError: if there is no such run.
        """
        made: dict[str, Any] = json.loads((self.runs()[run] / "run_results.json").read_text(encoding="utf-8"))
        return made

    def node(self, name: str, run: int = -1) -> dict[str, Any]:
        """The result of one node of a run, by its name.

        Raises:
            KeyError: if the run has no such node.
        """
        nodes = {str(n.get("name")): n for n in self.results(run).get("nodes", ())}
        made: dict[str, Any] = nodes[name]
        return made

    def rows(self, where: str, *, table: str | None = None, order: str | None = None) -> Rows:
        """Rows of a target, as exact texts.

        Args:
            where: path below the project: files that DuckDB can read (parquet, csv, json; globs too), or a DuckDB
                database if ``table`` is given.
            table: ``table`` or ``schema.table`` in the database.
            order: column to sort by; without it rows come as DuckDB gives them.
        """
        import duckdb

        path = str(self.folder / where)
        suffix = f" ORDER BY {quote_identifier(order)}" if order is not None else ""
        with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as database:
            database.execute("SET TimeZone = 'UTC'")
            source = quote_literal(path)
            if table is not None:
                database.execute(f"ATTACH {source} AS kit (READ_ONLY)")
                source = quote_path("kit", *(table.split(".") if "." in table else ("main", table)))
            return read_rows(database, f"(SELECT * FROM {source}{suffix})")

    def _environment(self, more: Mapping[str, str | None] | None) -> dict[str, str]:
        made: dict[str, str | None] = {**os.environ, **self.env, **(more or {})}
        return {name: value for name, value in made.items() if value is not None}

    def _process(self, argv: Sequence[str], env: Mapping[str, str | None] | None, timeout_s: float) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "pz_core", *argv],
            cwd=self.folder, env=self._environment(env), capture_output=True, text=True, encoding="utf-8",
            timeout=timeout_s, check=False,
        )  # fmt: skip
        return Said(done.returncode, done.stdout, done.stderr)

    def _here(self, argv: Sequence[str], env: Mapping[str, str | None] | None) -> Said:
        [script] = entry_points(group="console_scripts", name="pz")
        main = script.load()
        with _IN_PROCESS, _captured() as (out, err), _as_if_in(self.folder, self._environment(env)):
            try:
                main(list(argv))
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
        return Said(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode("utf-8")


@contextlib.contextmanager
def _captured() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield out, err


@contextlib.contextmanager
def _as_if_in(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    before, where = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(where)
        os.environ.clear()
        os.environ.update(before)
