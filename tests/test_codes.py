from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pz_core.codes import CODES, RETIRED, Code

ROOT = Path(__file__).resolve().parents[1]
LITERAL = re.compile(r"\bPZ\d{4}\b")
PHASES = {"load", "compile", "select", "validate", "plan", "run", "packages", "cli"}


def sources() -> Iterator[Path]:
    yield from (p for p in (ROOT / "pz_core").rglob("*.py") if "codes" not in p.relative_to(ROOT).parts)
    yield from (p for p in (ROOT / "plugins").rglob("*.py") if "tests" not in p.parts)


def test_rows_stand_in_order_under_their_own_code() -> None:
    assert list(CODES) == sorted(CODES)
    assert all(code == row.code for code, row in CODES.items())


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_every_row_is_well_formed(row: Code) -> None:
    assert re.fullmatch(r"PZ0[1-9]\d\d", row.code)
    assert row.severity in {"error", "warning", "note", "error/warning"}
    assert row.phase in PHASES
    for text in (row.title, row.cause, row.remedy):
        assert text == text.strip() and "\n" not in text and "  " not in text
    assert len(row.title) <= 60 and not row.title.endswith(".")
    assert row.cause.endswith(".")
    assert len(row.remedy) > 10
    assert row.title.lower() not in row.remedy.lower()


def test_titles_are_not_repeated_within_a_block() -> None:
    titles = [(row.code[:4], row.title) for row in CODES.values()]
    assert len(titles) == len(set(titles))


def test_retired_codes_are_no_rows() -> None:
    assert not RETIRED & CODES.keys()
    assert {"PZ0203", "PZ0207", "PZ0226", "PZ0228", "PZ0232", "PZ0343", "PZ0347", "PZ0359"} <= RETIRED


def test_every_code_that_the_sources_speak_of_is_a_row() -> None:
    unknown: dict[str, list[str]] = {}
    for path in sources():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for code in LITERAL.findall(line):
                if code not in CODES:
                    unknown.setdefault(code, []).append(f"{path.relative_to(ROOT)}:{number}")
    assert not unknown


def test_the_scan_sees_the_sources() -> None:
    assert "PZ0702" in (ROOT / "pz_core/plugins/registry.py").read_text(encoding="utf-8")
    assert len(list(sources())) > 20
