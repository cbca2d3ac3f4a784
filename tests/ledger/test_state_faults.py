"""Faults of the local state in the middle of a run: coded errors, a way out, nothing lost and nothing half."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

MERGED = "sink('mart', 'merged', strategy: 'merge', keys: ['id'])"
PLAIN = "sink('twin', 'plain', duplicates: 'accept')"
REFUSE = "sink('mart', 'orders', duplicates: 'refuse')"
CODES = {errno.ENOSPC: "PZ0532", errno.EROFS: "PZ0531"}


def _failing(monkeypatch: pytest.MonkeyPatch, name: str, number: int, *, at: str, times: int = 99) -> list[str]:
    """Make the system refuse to write one file: when its temporary is opened, filled or named."""
    calls: list[str] = []
    files: set[int] = set()
    real = {"open": os.open, "write": os.write, "replace": os.replace}

    def fail(step: str, path: Any) -> None:
        if step == at and len(calls) < times:
            calls.append(step)
            raise OSError(number, os.strerror(number), str(path))

    def opened(path: Any, *arguments: Any, **named: Any) -> int:
        mine = Path(str(path)).name.startswith(f".{name}.")
        if mine:
            fail("open", path)
        file = real["open"](path, *arguments, **named)
        files.add(file) if mine else files.discard(file)
        return int(file)

    def written(file: int, data: Any) -> int:
        if file in files:
            if at == "write" and len(calls) < times:
                real["write"](file, bytes(data)[:5])  # a part gets there
            fail("write", name)
        return int(real["write"](file, data))

    def replaced(source: Any, target: Any, **named: Any) -> None:
        if Path(str(target)).name == name:
            fail("replace", target)
        real["replace"](source, target, **named)

    monkeypatch.setattr("os.open", opened)
    monkeypatch.setattr("os.write", written)
    monkeypatch.setattr("os.replace", replaced)
    return calls


@pytest.mark.parametrize(
    ("number", "at"),
    [(errno.ENOSPC, "open"), (errno.ENOSPC, "write"), (errno.ENOSPC, "replace"), (errno.EROFS, "open")],
)
def test_a_mark_that_cannot_be_written_is_told_and_a_retry_writes_it(lab, monkeypatch, number, at):
    lab.pipeline(MERGED, PLAIN)
    lab.feed(1)
    lab.pz("run")
    lab.feed(2)
    old = lab.state_file.read_text()
    with monkeypatch.context() as patched:
        calls = _failing(patched, "watermarks.json", number, at=at)
        said = lab.pz("run", code=1)
    assert calls and "PZ0527" in said.err and CODES[number] in said.err and "shop.orders" in said.err
    assert lab.state_file.read_text() == old
    assert not list(lab.state_file.parent.glob("*.tmp"))
    assert lab.results()["status"] == "completed_with_failures"
    said = lab.pz("retry")
    assert "1 watermark is still to be stored" in said.err
    assert (lab.stored(), lab.ids("merged"), lab.ids("plain", "twin")) == ("2", [1, 2], [1, 2])


def test_without_a_retry_the_next_run_repeats_what_may_be_repeated_only(lab, monkeypatch):
    lab.pipeline(MERGED, PLAIN, REFUSE)
    lab.feed(1)
    with monkeypatch.context() as patched:
        _failing(patched, "watermarks.json", errno.ENOSPC, at="write")
        lab.pz("run", code=1)
    lab.feed(2)
    lab.pz("run", "--until-caught-up")
    assert (lab.ids("merged"), lab.ids("orders"), lab.ids("plain", "twin")) == ([1, 2], [1, 2], [1, 1, 2])


def test_a_store_that_comes_back_within_the_run_is_written(lab, monkeypatch):
    lab.pipeline(MERGED)
    lab.feed(1)
    with monkeypatch.context() as patched:
        calls = _failing(patched, "watermarks.json", errno.EIO, at="write", times=1)
        lab.pz("run")
    assert (calls, lab.stored()) == (["write"], "1")


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"version": 1, "watermarks": {"shop.orders": {"curs', "[]", '{"version": 1, "watermarks": 7}', "\0\0"],
)
def test_a_state_file_that_is_torn_means_a_full_read_and_the_ledger_still_holds(lab, text):
    lab.pipeline(MERGED, REFUSE)
    lab.feed(1)
    lab.pz("run")
    lab.state_file.write_text(text)
    assert lab.pz("state", "show", code=1).err
    lab.feed(2)
    said = lab.pz("run")
    assert "it counts as nothing stored" in said.err
    assert json.loads(lab.state_file.read_text())["watermarks"]["shop.orders"]["value"] == "1"
    lab.pz("run")
    assert (lab.ids("merged"), lab.ids("orders"), lab.stored()) == ([1, 2], [1, 2], "2")


def test_a_state_of_a_newer_pz_stops_the_run_before_any_node(lab):
    lab.pipeline(MERGED, REFUSE)
    lab.feed(1)
    lab.write(".pz/state/watermarks.json", '{"version": 2, "watermarks": {}}')
    said = lab.pz("run", code=2)
    assert "PZ0519" in said.err
    assert not (lab.root / "mart.duckdb").exists() and not list((lab.root / ".pz").glob("runs/*"))


@pytest.mark.parametrize("what", ["state", "state/watermarks.json"])
def test_a_state_that_cannot_be_opened_stops_the_run_before_any_node(lab, what):
    lab.pipeline(MERGED)
    lab.feed(1)
    if what == "state":
        lab.write(".pz/state", "no folder")
    else:
        (lab.root / ".pz" / "state" / "watermarks.json").mkdir(parents=True)
    said = lab.pz("run", code=2)
    assert "PZ0518" in said.err or "PZ0531" in said.err
    assert not (lab.root / "mart.duckdb").exists()


def test_results_that_cannot_be_written_make_no_success_and_lose_nothing(lab, monkeypatch):
    lab.pipeline(MERGED, PLAIN, REFUSE)
    lab.feed(1)
    lab.pz("run")
    lab.feed(2)
    real, finished = os.replace, []

    def replaced(source: Any, target: Any, **named: Any) -> None:
        if Path(str(target)).name == "run_results.json" and "finishedAt" in Path(source).read_text():
            finished.append(1)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        real(source, target, **named)

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", replaced)
        said = lab.pz("run", code=3)
    assert finished and "PZ0532" in said.err
    assert lab.results()["status"] == "running"  # the last whole snapshot
    assert lab.stored() == "2"
    assert "PZ0503" in lab.pz("retry", code=2).err
    lab.feed(3)
    lab.pz("run")
    assert lab.ids("merged") == lab.ids("orders") == lab.ids("plain", "twin") == [1, 2, 3]
