"""The black-box cases, one item a file. `expected_failures.txt` lists those that are not yet due."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).resolve().parent
CASES = HERE / "cases"
FILES = sorted(CASES.rglob("*.yml"))


def _runner():
    spec = importlib.util.spec_from_file_location("run_cases", CASES / "run_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_cases"] = module
    spec.loader.exec_module(module)
    return module


RUNNER = _runner()


def expected_failures() -> set[str]:
    lines = (HERE / "expected_failures.txt").read_text(encoding="utf-8").splitlines()
    return {line.split("#")[0].strip() for line in lines if line.split("#")[0].strip()}


EXPECTED = expected_failures()


def _serve(path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a case the servers that it needs, in the way in which its runner is told of them."""
    needs = RUNNER.missing(RUNNER.texts(yaml.safe_load(path.read_text(encoding="utf-8")).get("needs")))
    for name, value in (pair for need in needs for pair in request.getfixturevalue(f"cases_{need}").items()):
        monkeypatch.setenv(name, value)


@pytest.mark.case
@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(CASES)))
def test_case(path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    _serve(path, request, monkeypatch)
    pz = Path(sys.executable).with_name("pz")
    command = str(pz) if pz.exists() else shutil.which("pz")
    assert command, "pz is not installed"
    _label, why = RUNNER.run_case(path, command, keep=False)
    if why is RUNNER.SKIPPED:
        pytest.skip("needs a server")
    name = str(path.relative_to(CASES))
    if name in EXPECTED:
        assert why is not None, f"{name} holds now: take it out of tests/expected_failures.txt"
        pytest.xfail("listed in expected_failures.txt")
    assert why is None, why


def test_every_listed_failure_is_a_case() -> None:
    assert {str(p.relative_to(CASES)) for p in FILES} >= EXPECTED
