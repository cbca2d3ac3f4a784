"""The kit's rules on the checks of the core."""

from __future__ import annotations

from pz_core.checks.accepted_values import AcceptedValues
from pz_core.checks.custom_sql import CustomSql
from pz_core.checks.freshness import Freshness
from pz_core.checks.not_null import NotNull
from pz_core.checks.row_count import RowCount
from pz_core.checks.unique import Unique
from pz_core.testkit import CheckSuite
from pz_core.testkit.check import CheckCase
from pz_core.values import Value

COLUMN = ("SELECT 1::BIGINT AS a UNION ALL SELECT 2", "SELECT 1::BIGINT AS a UNION ALL SELECT 1 UNION ALL SELECT NULL")


class TestNotNull(CheckSuite):
    check = NotNull
    cases = [CheckCase(["a"], COLUMN[0], 0), CheckCase({"column": "a"}, COLUMN[1], 1)]
    malformed = [[], {}, "", {"column": "a", "columns": ["b"]}]

    def body_for(self, column: str) -> Value:
        return [column]


class TestUnique(CheckSuite):
    check = Unique
    cases = [CheckCase(["a"], COLUMN[0], 0), CheckCase(["a"], COLUMN[1], 1)]
    malformed = [[], {}, 1]

    def body_for(self, column: str) -> Value:
        return {"columns": [column]}


class TestAcceptedValues(CheckSuite):
    check = AcceptedValues
    cases = [
        CheckCase({"column": "a", "values": [1, 2]}, COLUMN[0], 0),
        CheckCase({"column": "a", "values": [2]}, COLUMN[1], 2),
        CheckCase({"column": "a", "values": ["it's", ""]}, "SELECT 'it''s' AS a UNION ALL SELECT 'x'", 1),
    ]
    malformed = [
        {"column": "a"},
        {"values": [1]},
        {"column": "a", "values": []},
        {"column": "a", "values": [float("nan")]},
    ]

    def body_for(self, column: str) -> Value:
        return {"column": column, "values": [1]}


class TestRowCount(CheckSuite):
    check = RowCount
    cases = [CheckCase({"min": 1, "max": 2}, COLUMN[0], 0), CheckCase({"min": 3}, COLUMN[0], 1)]
    malformed = [{}, {"min": "1"}, {"min": 2, "max": 1}, {"min": True}]


class TestFreshness(CheckSuite):
    check = Freshness
    cases = [
        CheckCase({"column": "at", "max_age": "1h"}, "SELECT TIMESTAMPTZ '2026-01-02 03:00:00+00' AS \"at\"", 0),
        CheckCase({"column": "at", "max_age": "1m"}, "SELECT TIMESTAMPTZ '2026-01-02 03:00:00+00' AS \"at\"", 1),
        CheckCase({"column": "at", "max_age": "2d"}, "SELECT DATE '2026-01-01' AS \"at\"", 0),
    ]
    malformed = [{"column": "at"}, {"max_age": "1h"}, {"column": "at", "max_age": "soon"}]


class TestCustomSql(CheckSuite):
    check = CustomSql
    cases = [
        CheckCase({"name": "fine", "sql": "SELECT 1 WHERE false"}, COLUMN[0], 0),
        CheckCase({"name": "broken", "sql": "SELECT 1 UNION ALL SELECT 2 -- two"}, COLUMN[0], 2),
    ]
    malformed = [{"name": "x"}, {"name": "X", "sql": "SELECT 1"}, {"name": "x", "sql": "SELECT 1; SELECT 2"}]
