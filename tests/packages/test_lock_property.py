"""Property: the same inputs and the same index content give the same bytes, wherever and however the lock is made."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import wheel

LISTED = ("pz-connector-a >=1 <2", "pz-connector-m", "pz-strategy-z", "Pz.Connector.Own")
LOCALES = ("C", "C.UTF-8", "POSIX", "tr_TR.UTF-8", "de_DE.ISO-8859-1")
COMMENTS = ("", "# a comment\n", "# ünïcode, 日本語\n\n", "# connectors:\n#   - {package: nothing}\n")


@dataclass(frozen=True)
class Place:
    """Where and how a lock is made."""

    depth: tuple[str, ...]
    home: str
    locale: str
    seed: int
    order: tuple[str, ...]
    comment: str
    zone: str
    again: bool


PLACES = st.builds(
    Place,
    depth=st.lists(st.sampled_from(["a", "with space", "ünder", "x" * 40]), max_size=3).map(tuple),
    home=st.sampled_from(["home", "other home", "gone"]),
    locale=st.sampled_from(LOCALES),
    seed=st.integers(0, 2**32 - 1),
    order=st.permutations(LISTED).map(tuple),
    comment=st.sampled_from(COMMENTS),
    zone=st.sampled_from(["UTC", "Asia/Tokyo", "America/St_Johns"]),
    again=st.booleans(),
)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small index: a graph with a diamond, markers, a name under two markers, and a package of another kind."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "1.5", "2.0"):
        wheel(folder, "shared", version)
    wheel(folder, "only-windows", "3.0", ["shared"])
    wheel(folder, "pz-connector-a", "1.0", ["shared<2", "pz-core>=1,<2"], "connector.a = pz_connector_a")
    wheel(
        folder,
        "pz-connector-a",
        "1.1",
        ["shared<2", "pz-core>=1.0", "only-windows; sys_platform == 'win32'"],
        "connector.a = pz_connector_a",
    )
    needs = ["shared<1.5; python_version < '3.13'", "shared>=1.5; python_version >= '3.13'", "pz-core>=1"]
    wheel(folder, "pz-connector-m", "1.0", needs, "connector.m = pz_connector_m")
    wheel(folder, "pz-strategy-z", "0.3", ["pz-core>=1,<2"], "strategy.z = pz_strategy_z\nstrategy.y = pz_strategy_z")
    wheel(folder, "pz-connector-own", "2.0", ["shared>=2", "pz-core>=1"], "connector.own = pz_connector_own")
    return folder


def locked(base: Path, wheels: Path, place: Place) -> bytes:
    """Make a project at the place, lock it there, and give the bytes."""
    (base / ".git").mkdir()
    root = base.joinpath(*place.depth, "p")
    root.mkdir(parents=True)
    lines = [f"{place.comment}name: p", "version: 1.0.0"]
    for key, head in (("connectors", "pz-connector"), ("plugins", "pz-strategy")):
        lines.append(f"{key}:")
        for text in place.order:
            name, _, version = text.partition(" ")
            if name.lower().replace(".", "-").startswith(head):
                isolation = ", isolation: process" if "Own" in name else ""
                lines.append(f"- {{package: {name}{f', version: {version!r}' if version else ''}{isolation}}}")
    (root / "project.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    home = base / place.home
    if place.home != "gone":
        home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "UV_CACHE_DIR", "LD_LIBRARY_PATH") if name in os.environ}
    cache = {"UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(wheels.parent / "uv-cache")}
    environ = {
        **kept,
        **cache,
        "HOME": str(home),
        "LC_ALL": place.locale,
        "LANG": place.locale,
        "PYTHONHASHSEED": str(place.seed),
        "TZ": place.zone,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
    }
    command = [sys.executable, "-m", "pz_core", "deps", "lock", "--find-links", str(wheels)]
    for _ in range(2 if place.again else 1):
        done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, errors="replace")
        assert done.returncode == 0, done.stderr
    return (root / "pz.lock.json").read_bytes()


@pytest.fixture(scope="module")
def first(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The lock as it comes out of a plain place."""
    plain = Place((), "home", "C.UTF-8", 0, LISTED, "", "UTC", again=False)
    return locked(tmp_path_factory.mktemp("plain"), wheels, plain)


def same_anywhere(first: bytes, wheels: Path, place: Place) -> None:
    with tempfile.TemporaryDirectory() as name:
        assert locked(Path(name), wheels, place) == first


def test_the_plain_lock_has_something_to_vary(first: bytes) -> None:
    text = first.decode()
    for part in ("only-windows", "python_full_version", '"strategy.y"', '"pz-connector-own": [', '"2.0"', '"1.5"'):
        assert part in text


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=PLACES)
def test_a_lock_has_the_same_bytes_anywhere(first: bytes, wheels: Path, place: Place) -> None:
    same_anywhere(first, wheels, place)


@pytest.mark.deep
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=PLACES)
def test_a_lock_has_the_same_bytes_anywhere_many_times(first: bytes, wheels: Path, place: Place) -> None:
    same_anywhere(first, wheels, place)
