"""The docs cannot drift: reference pages equal the code, commands that are shown run, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "plugins").glob("*/README.md"))]
FENCE = re.compile(r"(?:<!-- (?P<mark>[^>]*?) -->\n)?```console\n(?P<body>.*?)```", re.DOTALL)


def test_reference_pages_are_made_from_the_code() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "build.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Shown:
    command: str
    output: tuple[str, ...]


def sessions(page: Path) -> list[Shown]:
    """Commands of a page in order, with the output lines shown under each.

    A block under `<!-- not run: reason -->` is left out; it is there for what needs a clone or a server.
    """
    shown: list[Shown] = []
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        if (block["mark"] or "").startswith("not run"):
            continue
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            command, *output = part.rstrip("\n").split("\n")
            shown.append(Shown(command, tuple(line for line in output if line.strip())))
    return shown


def shape(line: str) -> str:
    """A line without what differs from run to run: run ids, numbers, spacing."""
    line = re.sub(r"\d{8}T\d{9}Z-[0-9a-f]{4}", "RUN", line)
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "#", line)).strip()


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.exists() and sessions(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_commands_that_are_shown_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    env = {**os.environ, "CI": "true", "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    here = tmp_path
    for shown in sessions(page):
        done = subprocess.run(
            ["bash", "-c", f"{shown.command}\nstatus=$?; echo; echo \"@@ $status $PWD\""],
            cwd=here, env=env, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        printed, _, last = done.stdout.rstrip().rpartition("\n@@ ")
        status, _, folder = last.partition(" ")
        here = Path(folder)
        actual = [shape(line) for line in (printed + "\n" + done.stderr).splitlines()]
        for line in shown.output:
            wanted = shape(line.removesuffix("..."))
            found = any(a.startswith(wanted) for a in actual) if line.endswith("...") else wanted in actual
            assert found, f"$ {shown.command}\nshown: {line}\nprinted:\n{printed}\n{done.stderr}"
        assert status in ("0", "1", "2"), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
