from __future__ import annotations

import json
from typing import Any

import pytest

from pz_core import codes
from pz_core.codes import Code

TABLE = {
    row.code: row
    for row in (
        Code("PZ0101", "bad shape", "a file is malformed", "mend it"),
        Code("PZ0214", "append below a delta", "why it is", "say accept", phase="compile"),
        Code("PZ0215", "several flows", "bare run", "name one", phase="select"),
        Code("PZ0522", "duplicate keys", "a batch", "look", "warning", "run"),
    )
}


@pytest.fixture(autouse=True)
def _table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "CODES", TABLE)


@pytest.mark.parametrize("spelling", ["PZ0214", "pz0214", "0214", "214"])
def test_a_code_is_explained_in_any_spelling(pz: Any, spelling: str) -> None:
    said = pz("explain", spelling)
    assert said.code == 0
    for part in ("PZ0214", "append below a delta", "why it is", "say accept", "error", "compile"):
        assert part in said.out


def test_an_unknown_code_is_answered_with_those_near_it(pz: Any) -> None:
    said = pz("explain", "PZ0216")
    assert said.code == 2 and said.out == ""
    assert "PZ0215, PZ0214" in said.err


def test_without_a_code_all_are_listed(pz: Any) -> None:
    said = pz("explain")
    assert [line.split()[0] for line in said.out.splitlines()] == sorted(TABLE)


def test_json(pz: Any) -> None:
    assert json.loads(pz("explain", "pz0522", "--json").out) == {
        "code": "PZ0522",
        "title": "duplicate keys",
        "severity": "warning",
        "phase": "run",
        "cause": "a batch",
        "remedy": "look",
    }
    assert len(json.loads(pz("explain", "--json").out)) == len(TABLE)
    said = pz("explain", "zzz", "--json")
    assert said.code == 2 and json.loads(said.out)["errors"]
