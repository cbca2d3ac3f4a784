"""Runs ``pz`` in processes of their own, and kills them at named points.

A point is a function of the product and a moment before or after a call of it, put there from outside: the product
knows nothing of it. The signal is KILL, INT or TERM; from KILL nothing comes back, after the others the call goes on.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Point:
    """Where a run is killed.

    Args:
        where: ``module:name`` or ``module:Class.name`` of the function, where it is looked up when it is called.
        after: whether the call is let through first.
        at: which call, from 1.
        only: the calls that count: a part of the text of their arguments.
    """

    where: str
    after: bool = False
    at: int = 1
    only: str = ""


_ENGINE = "pz_core.engines.duckdb.engine:DuckDBEngine"
_RESULTS = "pz_core.run.results:ResultsFile"
_STATE = "pz_core.state.local:LocalState"
_RENAME = "os:replace"

#: Name of a point -> the point, in the order of a run.
POINTS: dict[str, Point] = {
    "plan.written": Point("pz_core.plan.artifacts:write_plan", after=True),
    "state.opened": Point("pz_core.run.memory:RunMemory.open", after=True),
    "run.folder.made": Point("pz_core.run.lock:RunLock.take"),
    "run.locked": Point("pz_core.run.lock:RunLock.take", after=True),
    "results.first.unnamed": Point(_RENAME, only="run_results.json"),
    "results.first": Point(f"{_RESULTS}.start", after=True),
    "staging.opened": Point(f"{_ENGINE}.__init__", after=True),
    "ledger.begun": Point(f"{_ENGINE}.open_ledger"),
    "ledger.made": Point(f"{_ENGINE}.open_ledger", after=True),
    "land.begun": Point(f"{_ENGINE}.land"),
    "land.read": Point("pz_core.engines.duckdb.land:trim"),
    "land.done": Point(f"{_ENGINE}.land", after=True),
    "land.all.done": Point(f"{_ENGINE}.land", after=True, at=2),
    "results.node.unnamed": Point(_RENAME, only="run_results.json", at=2),
    "materialise.begun": Point(f"{_ENGINE}.materialise"),
    "materialise.done": Point(f"{_ENGINE}.materialise", after=True, at=2),
    "check.done": Point(f"{_ENGINE}.check", after=True),
    "drain.begun": Point(f"{_ENGINE}.drain"),
    "append.program": Point("pz_core.engines.duckdb.drain_table:run_program", only="plain"),
    "append.uncommitted": Point("pz_core.engines.duckdb.drain_table:run_program", after=True, only="plain"),
    "append.committed": Point("pz_core.engines.duckdb.drain:load_table", after=True, only="plain"),
    "ledger.written": Point("pz_core.engines.duckdb.ledger:LoadLedger.write", after=True),
    "ledger.uncommitted": Point("pz_core.engines.duckdb.drain_table:run_program", after=True, only="once"),
    "ledger.committed": Point("pz_core.engines.duckdb.drain:load_table", after=True, only="once"),
    "merge.uncommitted": Point("pz_core.engines.duckdb.drain_table:run_program", after=True, only="merged"),
    "merge.committed": Point("pz_core.engines.duckdb.drain:load_table", after=True, only="merged"),
    "copy.written": Point("pz_core.engines.duckdb.drain_copy:make_durable"),
    "copy.durable": Point("pz_core.engines.duckdb.drain_copy:make_durable", after=True),
    "copy.moved": Point("pathlib:Path.replace", after=True),
    "copy.done": Point("pz_core.engines.duckdb.drain:copy_out", after=True),
    "drain.half.done": Point(f"{_ENGINE}.drain", after=True, at=2),
    "drain.all.done": Point(f"{_ENGINE}.drain", after=True, at=4),
    "engine.closed": Point(f"{_ENGINE}.close", after=True),
    "results.flushed": Point(f"{_RESULTS}.flush", after=True),
    "retention.done": Point("pz_core.run.ending:retain", after=True),
    "events.closed": Point("pz_core.run.bus:EventBus.close", after=True),
    "state.begun": Point(f"{_STATE}.write"),
    "state.unnamed": Point(_RENAME, only="watermarks.json"),
    "state.named": Point(_RENAME, after=True, only="watermarks.json"),
    "state.written": Point(f"{_STATE}.write", after=True),
    "state.all.written": Point("pz_core.run.ending:Ending._advance", after=True),
    "results.last": Point(f"{_RESULTS}.finish"),
    "results.last.written": Point(f"{_RESULTS}.finish", after=True),
    "run.unlocked": Point("pz_core.run.lock:RunLock.release", after=True),
}
#: Points of the universal tier, where they are others.
UNIVERSAL: dict[str, Point] = {
    "batches.staged": Point("pz_core.engines.duckdb.ingest:Ingest.flush", after=True),
    "append.staged": Point("pz_duckdb.sink:TableSession.write", after=True),
    "append.program": Point("pz_duckdb.sink:TableSession.commit", at=2),
    "append.committed": Point("pz_duckdb.sink:TableSession.commit", after=True, at=2),
    "ledger.written": Point("pz_core.engines.duckdb.ledger:LoadLedger.write", after=True),
    "half.committed": Point("pz_duckdb.sink:TableSession.commit", after=True, at=3),
    "all.committed": Point("pz_duckdb.sink:TableSession.commit", after=True, at=4),
}


def install(point: Point, strike: Callable[[], None]) -> None:
    """Put a blow at a point."""
    module, _, path = point.where.partition(":")
    holder: Any = importlib.import_module(module)
    *owners, name = path.split(".")
    for owner in owners:
        holder = getattr(holder, owner)
    plain = holder.__dict__[name]
    original: Any = getattr(holder, name)
    seen = [0]

    def struck(*arguments: Any, **named: Any) -> Any:
        hit = point.only in _text(arguments, named) if point.only else True
        if hit:
            seen[0] += 1
        due = hit and seen[0] == point.at
        if due and not point.after:
            strike()
        result = original(*arguments, **named)
        if due and point.after:
            strike()
        return result

    setattr(holder, name, staticmethod(struck) if isinstance(plain, (classmethod, staticmethod)) else struck)


def _text(arguments: tuple[Any, ...], named: dict[str, Any]) -> str:
    return " ".join(
        str(part) if isinstance(part, (str, Path)) else repr(part) for part in (*arguments, *named.values())
    )


def carry_out(name: str, kind: str, argv: list[str]) -> int:
    """Run ``pz`` with a blow at a point, or without one if it has no name."""
    if name:
        point = UNIVERSAL[name] if kind.startswith("UNIVERSAL_") and name in UNIVERSAL else POINTS[name]
        number = getattr(signal, f"SIG{kind.removeprefix('UNIVERSAL_')}")

        def strike() -> None:
            Path("struck").touch()
            os.kill(os.getpid(), number)

        install(point, strike)
    from pz_core.cli.main import invoke

    return invoke(argv)


def serve() -> None:
    """Run what stdin asks for, a line of JSON each, in forked processes: all imports are paid for once.

    Nothing but imports happens in this process, so that a child is as good as a new one.
    """
    for module in _EAGER:
        importlib.import_module(module)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            os.chdir(asked["folder"])
            said = os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(said, 1)
            os.dup2(said, 2)
            code = 70
            try:
                code = carry_out(asked["point"], asked["kind"], asked["argv"])
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


#: What a run imports sooner or later.
_EAGER = (
    "duckdb",
    "filelock",
    "pyarrow",
    "pz_core.cli.main",
    "pz_core.cli.run",
    "pz_core.cli.retry",
    "pz_core.cli.execution",
    "pz_core.compile.graph",
    "pz_core.compile.dry",
    "pz_core.plan.planner",
    "pz_core.run.execute",
    "pz_core.engines.duckdb.engine",
    "pz_core.engines.duckdb.land_stream",
    "pz_core.engines.duckdb.drain_stream",
    "pz_core.engines.duckdb.ledger",
    "pz_core.state.local",
    "pz_duckdb.connector",
    "pz_duckdb.databases",
    "pz_localfiles.connector",
)


if __name__ == "__main__":
    serve()
