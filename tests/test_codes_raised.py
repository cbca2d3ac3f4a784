"""Every code of the table either has a test or a case that names it, or stands here with why nothing raises it yet."""

from __future__ import annotations

import re
from pathlib import Path

from pz_core.codes import CODES

ROOT = Path(__file__).resolve().parents[1]
RAISED = re.compile(r"""["'](PZ\d{4})["']""")
NAMED = re.compile(r"\bPZ\d{4}\b")

PACKAGES = "the lock: deps lock, sync and check"
STORES = "the state backend http"
AGENT = "the agent server and its tools (mcp)"
SCD = "the strategies of pz-strategy-scd"
PARTITIONS = "partitioned reads and writes of connectors to come"

#: Code -> what is to come that will raise it. A code leaves this list when the first line of product code raises it.
NOT_YET = {
    "PZ0220": PARTITIONS,
    "PZ0304": PACKAGES,
    "PZ0364": "pz validate --connect: what a connector found that may not be meant",
    "PZ0524": "dates of files without a contract: day or month first",
    "PZ0530": STORES,
    "PZ0601": AGENT,
    "PZ0602": AGENT,
    "PZ0603": AGENT,
    "PZ0604": AGENT,
    "PZ0605": AGENT,
    "PZ0606": AGENT,
    "PZ0607": AGENT,
    "PZ0608": AGENT,
    "PZ0609": AGENT,
    "PZ0610": AGENT,
    "PZ0611": AGENT,
    "PZ0801": SCD,
    "PZ0802": SCD,
    "PZ0803": SCD,
    "PZ0805": SCD,
    "PZ0806": SCD,
}


def raised() -> set[str]:
    """Codes that stand as literals in the product, the table aside."""
    core = (p for p in (ROOT / "pz_core").rglob("*.py") if "codes" not in p.relative_to(ROOT).parts)
    plugins = (p for p in (ROOT / "plugins").rglob("*.py") if "tests" not in p.relative_to(ROOT).parts)
    return {code for path in (*core, *plugins) for code in RAISED.findall(path.read_text(encoding="utf-8"))}


def named() -> set[str]:
    """Codes that a case or a test speaks of; the tests of the table itself do not count."""
    own = {"test_codes.py", "test_codes_raised.py"}
    files = [
        *(ROOT / "tests/cases").rglob("*.yml"),
        *(p for p in (ROOT / "tests").rglob("test_*.py") if p.name not in own),
        *(p for p in (ROOT / "plugins").rglob("test_*.py") if "tests" in p.relative_to(ROOT).parts),
    ]
    return {code for path in files for code in NAMED.findall(path.read_text(encoding="utf-8"))}


def test_every_code_that_can_be_raised_is_named_by_a_test_or_a_case() -> None:
    assert sorted(raised() & CODES.keys() - named()) == []


def test_every_other_code_of_the_table_says_what_it_waits_for() -> None:
    assert sorted(CODES.keys() - raised() - NOT_YET.keys()) == []


def test_the_list_of_waiting_codes_shrinks() -> None:
    assert sorted(NOT_YET.keys() & raised()) == [], "raised now: take them out of NOT_YET"
    assert sorted(NOT_YET.keys() - CODES.keys()) == [], "no rows of the table"


def test_the_scan_sees_both_sides() -> None:
    assert {"PZ0104", "PZ0206", "PZ0702"} <= raised() & named()
    assert not {"PZ0801"} & raised()
