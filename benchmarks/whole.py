"""Whole processes: how long one takes, how much memory it needs, and the ratio to another."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PYTHON = sys.executable
PZ = str(Path(sys.executable).with_name("pz"))

ROWS = """
select i::bigint as id, ((i * 7919) % 100000)::int as n, 'name-' || (i % 5000) as label,
       round(i * 1.37 / 3, 6)::double as amount, timestamp '2026-01-01' + to_seconds(i) as ts
from range({rows}) r(i)
"""


class Failed(Exception):
    """A command that did not end well; the text is what it said last."""


@dataclass(frozen=True)
class Reading:
    """One process: seconds of wall time, of processor time, and the peak of its resident memory in MiB."""

    wall: float
    cpu: float
    mib: float


def timed(
    command: list[str], cwd: Path, env: Mapping[str, str] | None = None, patience: float | None = None
) -> Reading:
    """Run a command to its end and read its times and peak memory from the kernel.

    Args:
        command, cwd, env: of the process.
        patience: seconds after which it is stopped.

    Raises:
        Failed: if it exits with anything but 0, or was stopped.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=None if env is None else dict(env)
    )
    assert process.stderr is not None
    stop = threading.Timer(patience or 1e6, process.kill)
    stop.daemon = True
    stop.start()
    errors = process.stderr.read()
    stop.cancel()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if patience is not None and wall >= patience:
        raise Failed(f"stopped after {patience:.0f} s")
    if process.returncode != 0:
        raise Failed(
            f"{' '.join(command)[:300]} exited {process.returncode}\n{errors.decode(errors='replace')[-2000:]}"
        )
    return Reading(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write the files of a project."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def median(readings: list[Reading], what: str) -> float:
    return statistics.median(getattr(r, what) for r in readings)


def result(ours: list[Reading], theirs: list[Reading]) -> dict[str, float]:
    """Medians of both sides and their ratios; that of the wall time is the median of the pairs'."""
    made = {
        "pz_wall_s": median(ours, "wall"),
        "raw_wall_s": median(theirs, "wall"),
        "pz_peak_mib": median(ours, "mib"),
        "raw_peak_mib": median(theirs, "mib"),
    }
    made["wall_ratio"] = statistics.median(a.wall / b.wall for a, b in zip(ours, theirs, strict=True))
    made["cpu_ratio"] = median(ours, "cpu") / median(theirs, "cpu")
    made["peak_ratio"] = made["pz_peak_mib"] / made["raw_peak_mib"]
    return {k: round(v, 3) for k, v in made.items()}


def machine(runs: int) -> dict[str, object]:
    """What a report begins with."""
    return {
        "python": platform.python_version(),
        "duckdb": importlib.metadata.version("duckdb"),
        "cores": os.cpu_count(),
        "runs": runs,
    }


def keep(report: Mapping[str, object], name: str) -> None:
    """Write a report into the folder of the results."""
    target = Path(__file__).resolve().parent / "results" / name
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"written to benchmarks/results/{name}")
