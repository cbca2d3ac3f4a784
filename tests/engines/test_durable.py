"""Flushing while files are written: a head start that never gets in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from pz_core.values import durable


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Paths of files that were flushed, by whichever thread, in order."""
    seen: list[Path] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        seen.append(Path(f"/proc/self/fd/{handle}").readlink())
        real(handle)

    monkeypatch.setattr(durable, "_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(os, "fsync", fsync)
    return seen


def until_flushed(flushed: list[Path], times: int = 1) -> None:
    """Wait for so many flushes, two seconds at most."""
    for _ in range(200):
        if len(flushed) >= times:
            return
        threading.Event().wait(0.01)


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="asks /proc what a handle is")


@needs_proc
@pytest.mark.parametrize("late", [False, True], ids=["there", "not-there-yet"])
def test_a_file_is_flushed_while_it_is_being_written(flushed: list[Path], tmp_path: Path, late: bool) -> None:
    file = tmp_path / "rows"
    with durable.flushing(file):
        if late:
            threading.Event().wait(0.05)
        file.write_bytes(b"x")
        until_flushed(flushed)
    assert set(flushed) == {file}


@needs_proc
def test_a_database_keeps_its_lock_while_it_is_flushed(flushed: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "staging.duckdb"
    with duckdb.connect(str(file)) as held, durable.flushing(file):
        held.execute("CREATE TABLE t AS SELECT 1 AS i")
        until_flushed(flushed, times=3)
        program = f"import duckdb; duckdb.connect({str(file)!r})"
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert len(flushed) > 2
    assert other.returncode != 0 and "lock" in other.stderr


def test_nothing_flushes_after_the_end_even_if_the_writing_failed(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ValueError, match="no room"), durable.flushing(tmp_path):
        raise ValueError("no room")
    assert set(threading.enumerate()) <= before


@needs_proc
def test_every_file_of_a_folder_is_made_durable(flushed: list[Path], tmp_path: Path) -> None:
    (tmp_path / "year=2026").mkdir()
    files = {tmp_path / "year=2026" / "a.parquet", tmp_path / "b.parquet"}
    for file in files:
        file.write_bytes(b"x")
    durable.make_durable(tmp_path)
    assert set(flushed) == files
