"""The shop example moves rows between real servers as it says; `make demo-shop` runs the same script."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The demo's folder after a run, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "shop"
    shutil.copytree(ROOT / "examples" / "shop", folder, ignore=shutil.ignore_patterns(".pz"))
    env = {**os.environ, "CI": "true", "PZ_TEST_SERVERS": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "demo.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    if "a server cannot be started here" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_shop_mart_and_lake_agree_after_both_runs(demo: tuple[Path, str]) -> None:
    _, printed = demo
    rows = re.findall(
        r"^  (?:the shop|mart\.orders|mart\.daily_revenue, .*?) +(\d+) +(\d+\.\d\d) +(\d+)$", printed, re.M
    )
    assert [row[0] for row in rows] == ["50000"] * 3 + ["51000"] * 3
    assert len(set(rows[:3])) == len(set(rows[3:])) == 1
    assert rows[0] != rows[3]


def test_the_second_run_reads_only_what_changed(demo: tuple[Path, str]) -> None:
    _, printed = demo
    assert re.findall(r"ok src_shop__public_orders (\d+) rows", printed) == ["50000", "2000"]
    assert "2 objects" in printed
