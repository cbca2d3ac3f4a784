"""Code in the docs is real: taken from a file as it stands there, or run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"<!-- (?P<mark>from|run): (?P<what>[^>]*?) -->\n```(?P<language>\w+)\n(?P<body>.*?)```", re.DOTALL)


def blocks(mark: str) -> list[Any]:
    return [
        pytest.param(found["what"], found["body"], id=f"{page.stem}-{n}")
        for page in PAGES
        for n, found in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")))
        if found["mark"] == mark
    ]


def test_there_are_blocks() -> None:
    assert blocks("from")
    assert blocks("run")


@pytest.mark.parametrize(("where", "body"), blocks("from"))
def test_a_block_stands_in_the_file_that_it_names(where: str, body: str) -> None:
    assert body.rstrip("\n") in (ROOT / where).read_text(encoding="utf-8"), f"{where} has other lines now"


@pytest.mark.parametrize(("what", "body"), blocks("run"))
def test_a_block_that_is_a_test_passes(what: str, body: str, tmp_path: Path) -> None:
    made: dict[str, Any] = {}
    exec(compile(body, f"docs: {what}", "exec"), made)
    [test] = [value for name, value in made.items() if name.startswith("test_")]
    test(tmp_path)
