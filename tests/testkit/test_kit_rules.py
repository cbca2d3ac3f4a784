"""Rules, marks and reports: what a suite says of a plugin is what pytest says of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pz_core.errors import PzError
from pz_core.testkit import Broken, Suite, notyet, require, rule, run_suite


class Kit(Suite):
    limit_s = 5.0
    thing: Any = None

    @classmethod
    def subject(cls) -> str | None:
        return None if cls.thing is None else "thing"

    @rule("area")
    def holds(self) -> None:
        """It holds."""
        require(self.folder.is_dir() and not list(self.folder.iterdir()), "the folder is not its own")

    @rule("area", cases=("one", "two"))
    def varies(self, case: str) -> None:
        """It holds in two ways.

        More of it.
        """
        require(case == "one", f"{case} is not one")

    @rule("area")
    def refuses(self) -> None:
        """It raises."""
        raise PzError("PZ0812", "column 'a' holds too much", hint="less")

    @rule("area", cases=())
    def concerns_nobody(self, case: str) -> None:
        """It has no case."""


def outcomes(**attributes: Any) -> dict[str, str]:
    report = run_suite(type("Made", (Kit,), {"thing": 1, **attributes}))
    return {r.rule: r.outcome for r in report.results}


def test_every_rule_has_an_outcome() -> None:
    assert outcomes() == {
        "holds": "passed", "varies[one]": "passed", "varies[two]": "failed", "refuses": "failed",
        "concerns_nobody": "skipped",
    }  # fmt: skip


def test_a_mark_counts_only_while_the_rule_fails_as_it_says() -> None:
    marks = {"refuses": notyet("later", raises="PZ0812"), "varies[two]": notyet("later", raises=Broken)}
    assert outcomes(not_yet=marks)["refuses"] == outcomes(not_yet=marks)["varies[two]"] == "notyet"
    assert outcomes(not_yet={"refuses": notyet("later", raises="PZ0501")})["refuses"] == "failed"
    assert outcomes(not_yet={"refuses": notyet("later", raises=Broken)})["refuses"] == "failed"
    assert outcomes(not_yet={"holds": notyet("later", raises=Broken)})["holds"] == "failed"


def test_a_mark_for_a_rule_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="no_such_rule"):
        type("Made", (Kit,), {"thing": 1, "not_yet": {"no_such_rule": notyet("later", raises=Broken)}})
    with pytest.raises(TypeError, match="does not say what it tests"):
        run_suite(Kit)


def test_a_report_is_plain_data() -> None:
    report = run_suite(type("Made", (Kit,), {"thing": 1}))
    told = json.loads(json.dumps(report.as_dict()))
    assert (told["suite"], told["subject"], told["ok"]) == ("Made", "thing", False)
    assert told["counts"] == {"passed": 2, "failed": 2, "skipped": 1, "notyet": 0}
    refused = next(r for r in told["results"] if r["rule"] == "refuses")
    assert refused["title"] == "It raises"
    assert refused["reason"] == "error PZ0812: column 'a' holds too much - hint: less"
    assert "Traceback" in report.failures[1].detail


def test_a_rule_that_never_ends_is_told() -> None:
    report = run_suite(
        type("Made", (Kit,), {"thing": 1, "begin": lambda self: time.sleep(0.2)}), only={"holds"}, limit_s=0.05
    )
    assert report.failures[0].reason == "did not end within 0.05 seconds"


TEST_FILE = """
from pz_core.testkit import Broken, Suite, notyet, require, rule

class Kit(Suite):
    thing = None

    @classmethod
    def subject(cls):
        return cls.thing

    @rule("a")
    def holds(self):
        'It holds.'

    @rule("a", cases=lambda suite: suite.words)
    def varies(self, case):
        'It varies.'
        require(case != "bad", "bad")

class Base(Kit):
    thing = "base"
    words = ("good", "bad", "gone")

class TestMarked(Base):
    words = ("good", "bad")
    not_yet = {"varies[bad]": notyet("later", raises=Broken)}

class TestStale(Base):
    words = ("good",)
    not_yet = {"holds": notyet("later", raises=Broken)}
"""


def test_pytest_finds_the_same_rules(tmp_path: Path) -> None:
    (tmp_path / "test_made.py").write_text(TEST_FILE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path, timeout=100,
    )  # fmt: skip
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("test_made.py::")]
    found = {words[0].split("::", 1)[1]: words[1] for words in lines}
    assert found == {
        "TestMarked::test_holds": "PASSED", "TestMarked::test_varies[good]": "PASSED",
        "TestMarked::test_varies[bad]": "XFAIL", "TestStale::test_holds": "FAILED",
        "TestStale::test_varies[good]": "PASSED",
    }, done.stdout  # fmt: skip
