"""Time what every run pays for the lock: the check against project.yml and against what is installed.

Twenty plugins and sixty other packages are put on the path of a fresh process with warm files. What counts is the CPU
time of the check itself, with the imports that it needs; the load of the project comes before it and is not counted.

Usage: lock_check.py [--runs N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PLUGINS, OTHERS = 20, 60
LIMIT_MS = 30.0

CHILD = """
import sys, time
from pathlib import Path
from pz_core.cli.locks import check_lock
from pz_core.cli.prepare import open_graph
graph, registry = open_graph(Path(sys.argv[1]))
began = time.process_time()
check_lock(graph, registry, skip=False)
ours = time.process_time() - began
again = time.process_time()
check_lock(graph, registry, skip=False)
print(ours * 1000, (time.process_time() - again) * 1000)
"""


def environment(folder: Path) -> None:
    """Distributions as an installer leaves them, with records of some length."""
    for number in range(PLUGINS + OTHERS):
        plugin = number < PLUGINS
        name = f"pz-connector-bench{number}" if plugin else f"other{number}"
        inside = folder / f"{name.replace('-', '_')}-1.{number}.dist-info"
        inside.mkdir(parents=True)
        (inside / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.{number}\n\n" + "text\n" * 200
        )
        (inside / "RECORD").write_text("".join(f"{name}/m{i}.py,sha256={'a' * 43},100\n" for i in range(300)))
        if plugin:
            (inside / "entry_points.txt").write_text(f"[pz]\nconnector.bench{number} = bench{number}\n")


def project(root: Path) -> None:
    """A project that lists the plugins, and its lock."""
    (root / "pipelines").mkdir(parents=True)
    listed = "".join(f'  - {{package: pz-connector-bench{n}, version: ">=1.0 <2.0"}}\n' for n in range(PLUGINS))
    (root / "project.yml").write_text(f"name: p\nversion: 1.0.0\nconnectors:\n{listed}")
    (root / "connections.yml").write_text("{}\n")
    (root / "pipelines" / "one.sql").write_text("SELECT 1 AS x\n")
    packages = [
        {
            "name": f"pz-connector-bench{n}" if n < PLUGINS else f"other{n}",
            "version": f"1.{n}",
            "markers": "python_full_version >= '3.9'" if n % 3 == 0 else "",
            "requires": ["pz-core"],
            "entry_points": {f"connector.bench{n}": f"bench{n}"} if n < PLUGINS else {},
            "files": [{"name": f"file-{i}.whl", "sha256": "0" * 64} for i in range(20)],
        }
        for n in range(PLUGINS + OTHERS)
    ]
    packages.append({"name": "pz-core", "range": ">=1.0,<2"})
    lock = {"version": 1, "requires_python": ">=3.11", "projects": ["."], "environments": {"main": packages}}
    (root / "pz.lock.json").write_text(json.dumps(lock, indent=2, sort_keys=True) + "\n")


def measure(runs: int) -> dict[str, float]:
    """CPU milliseconds of the check: first in its process, and again."""
    with tempfile.TemporaryDirectory(prefix="pz-bench-lock-") as name:
        site, root = Path(name) / "site", Path(name) / "p"
        environment(site)
        project(root)
        environ = {**os.environ, "PYTHONPATH": str(site)}
        readings = []
        for _ in range(runs + 1):
            done = subprocess.run(
                [sys.executable, "-c", CHILD, str(root)], env=environ, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(done.stderr)
            readings.append([float(text) for text in done.stdout.split()])
        first, again = ([reading[i] for reading in readings[1:]] for i in (0, 1))
    return {
        "check_cpu_ms": round(statistics.median(first), 2),
        "check_again_cpu_ms": round(statistics.median(again), 2),
        "limit_ms": LIMIT_MS,
    }


def main() -> int:
    """Measure, print, and fail above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    made = measure(parser.parse_args().runs)
    print(f"{'lock_check':24} {made}")
    return 0 if made["check_cpu_ms"] < LIMIT_MS else 1


if __name__ == "__main__":
    raise SystemExit(main())
