"""`make demo`: unpack the tables, run the project, say where to look.

One check finds something real, so the run ends with exit code 1 by design; anything else that fails is a fault here.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import unpack

HERE = Path(__file__).resolve().parent
EXPECTED_RED = {"check_stg_weather_unique_origin_local_hour"}


def pz(*arguments: str) -> int:
    command = shutil.which("pz", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if command is None:
        print("pz is not installed beside this Python: run `make demo` from the repository's root", file=sys.stderr)
        return 3
    print(f"\n$ pz {' '.join(arguments)}", flush=True)
    return subprocess.run([command, *arguments], cwd=HERE, check=False).returncode


def main() -> int:
    if unpack.main():
        return 1
    (HERE / "out").mkdir(exist_ok=True)  # a write to a database file makes the file, and not the folder that it is in
    if pz("plan"):
        return 1
    status = pz("run")
    newest = max((HERE / ".pz" / "runs").glob("*/run_results.json"), key=lambda p: p.parent.name)
    nodes = json.loads(newest.read_text(encoding="utf-8"))["nodes"]
    red = {n["name"] for n in nodes if n["status"] == "failed"}
    if status not in (0, 1) or red != EXPECTED_RED:
        print(f"the demo did not go as planned: exit {status}, failed {sorted(red)}", file=sys.stderr)
        return 1
    print(
        f"""
One check is red, and it is right: on 3 November 2013 the clocks went back, so the hour from one to two came twice
at each of the three airports. A check is an alarm, not a gate: everything else was loaded.

Where to look:
  {os.path.relpath(HERE / "out")}/carrier_delays/carrier_delays.csv   which airlines were late
  {os.path.relpath(HERE / "out")}/route_delays/route_delays.csv       which routes
  {os.path.relpath(HERE / "out")}/flights/flights.parquet             every flight, cleaned and joined
  {os.path.relpath(HERE / "out")}/mart.duckdb                         tables to query
  {os.path.relpath(newest)}
The project itself: {os.path.relpath(HERE)}/pipelines, one .sql file a pipeline."""
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
