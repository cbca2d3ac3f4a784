"""The suite for checks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from msgspec import Struct

from pz_core.contract.check import Check, CheckDefinition, CheckFault, CheckQuery
from pz_core.testkit import corpus
from pz_core.testkit.asking import caught, same_arguments
from pz_core.testkit.database import DatabaseSuite
from pz_core.testkit.rules import Broken, NotApplicable, require, rule
from pz_core.values import Value, canonical_json, quote_identifier, quote_path

_NAME = re.compile(r"[a-z][a-z0-9_]*")
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
#: Bodies that somebody may write; each is taken or refused as malformed.
_ODD_BODIES: tuple[Any, ...] = (
    None, "", "text", 0, 1.5, True, [], {}, [[]], [{}], [""], ["a", "a"], [1, 2], {"": ""}, {"pz_kit_unknown": 1},
    {"column": None}, {"column": 1}, {"column": ["a"]}, {"columns": "a"}, {"columns": []}, {"columns": [1]},
    {"column": "a", "columns": ["b"]}, {"values": {}}, {"min": "1"}, {"max": [1]}, {"sql": 5}, {"name": {}},
    {"column": "x" * 10_000}, ["a\0b"],
)  # fmt: skip


class CheckCase(Struct, frozen=True):
    """A body, rows and how often they break it.

    Args:
        body: as it stands in YAML.
        rows: a SELECT in DuckDB's SQL.
        violations: how many there are, at :data:`NOW`.
    """

    body: Any
    rows: str
    violations: int


class CheckSuite(DatabaseSuite):
    """What every check owes: it counts right, shows what it counted, and takes nothing that is malformed.

    Subclass it in a test file, name the check, and give cases of which at least one passes and one fails::

        class TestPositive(CheckSuite):
            check = Positive
            cases = [
                CheckCase(["n"], "SELECT 1 AS n", 0),
                CheckCase(["n"], "SELECT -1 AS n", 1),
            ]
    """

    check: ClassVar[type[Any] | None] = None
    """The class that the registration's target names."""

    cases: ClassVar[Sequence[CheckCase]] = ()
    """Bodies with rows and the number of violations."""

    malformed: ClassVar[Sequence[Any]] = ()
    """Bodies that must be refused."""

    def body_for(self, column: str) -> Value | None:
        """Hook: a body that looks at one column of type BIGINT; ``None`` for a check that looks at no column."""
        return None

    # --- from here on: what rules use -----------------------------------------------------------------------------

    @classmethod
    def subject(cls) -> str | None:
        """The check's name."""
        return None if cls.check is None else str(getattr(cls.check, "name", cls.check.__name__))

    def make(self) -> Check:
        """An instance."""
        return cast(Check, cast(Any, self.check)())

    @rule("declared")
    def the_class_is_a_check(self) -> None:
        """Name and every method of the contract are there; a schema of the body is plain data."""
        kind = cast(Any, self.check)
        require(_NAME.fullmatch(str(getattr(kind, "name", ""))), "name is no name: write [a-z][a-z0-9_]*")
        made = self.make()
        for name in ("define", "query"):
            method = getattr(made, name, None)
            require(
                callable(method) and same_arguments(cast(Any, method), getattr(Check, name)),
                f"{name}() is missing or takes other arguments",
            )
        schema = getattr(kind, "body_schema", None)
        if schema is not None:
            require(isinstance(schema, Mapping), "body_schema is no mapping")
            require(caught(lambda: canonical_json(schema)) is None, "body_schema is no plain data")

    @rule("declared")
    def the_suite_has_cases(self) -> None:
        """The suite has a case that passes and one that fails; without both it proves nothing."""
        require(any(c.violations == 0 for c in self.cases), "no case passes")
        require(any(c.violations > 0 for c in self.cases), "no case fails")

    @rule("counts")
    def violations_are_counted(self) -> None:
        """Every case has the number of violations that it says, on a table, on a view and twice."""
        for number, case in enumerate(self.cases, start=1):
            for kind in ("TABLE", "VIEW"):
                relation = self._relation(case.rows, kind)
                for _ in range(2):
                    found = self._count(self._query(case.body, relation))
                    require(found == case.violations, f"case {number} on a {kind}: {found}, not {case.violations}")

    @rule("counts")
    def samples_show_violations(self) -> None:
        """A sample has rows where there are violations and none where there are not, and no more than its limit."""
        for number, case in enumerate(self.cases, start=1):
            query = self._query(case.body, self._relation(case.rows))
            if query.sample is None:
                continue
            rows = self._database.execute(query.sample).fetchall()
            require(
                bool(rows) == (case.violations > 0), f"case {number}: {len(rows)} rows for {case.violations} violations"
            )
            require(query.sample_limit > 0, "sample_limit is not above zero")

    @rule("counts")
    def details_are_one_row(self) -> None:
        """A detail is one row."""
        for number, case in enumerate(self.cases, start=1):
            query = self._query(case.body, self._relation(case.rows))
            if query.detail is not None:
                rows = self._database.execute(query.detail).fetchall()
                require(len(rows) == 1, f"case {number}: the detail has {len(rows)} rows")

    @rule("counts")
    def queries_are_one_select_each(self) -> None:
        """Each query is one SELECT that changes nothing, and the same for the same question."""
        for case in self.cases:
            relation = self._relation(case.rows)
            query = self._query(case.body, relation)
            require(query == self._query(case.body, relation), "two calls give two queries")
            require(query.unit.strip(), "unit is empty")
            for sql in (query.count, query.sample, query.detail):
                if sql is None:
                    continue
                made = self._database.extract_statements(sql)
                require(len(made) == 1 and made[0].type.name == "SELECT", f"not one SELECT: {sql}")

    @rule("counts")
    def no_rows_are_a_relation_too(self) -> None:
        """A relation without rows, and one with nothing but NULL, is answered with a count."""
        for case in self.cases:
            nothing = f"SELECT * FROM ({case.rows}) LIMIT 0"
            nulls = f"SELECT CASE WHEN false THEN COLUMNS(*) END AS '\\0' FROM ({case.rows})"
            for rows in (nothing, nulls):
                self._count(self._query(case.body, self._relation(rows)))

    @rule("bodies")
    def definitions_are_data(self) -> None:
        """A body gives one definition, always the same, of plain data: it becomes part of the node's id."""
        for case in self.cases:
            made = self.make().define(case.body)
            require(isinstance(made, CheckDefinition), f"define() gave a {type(made).__name__}")
            require(made == self.make().define(case.body), "two calls give two definitions")
            require(caught(canonical_json, dict(made.options)) is None, "options are no plain data")
            require(made.kind == self.subject() or made.name is not None, f"kind is {made.kind}")

    @rule("bodies")
    def malformed_bodies_are_refused(self) -> None:
        """A body is taken, or refused with a CheckFault that says how it is malformed; nothing else comes out."""
        for body in (*_ODD_BODIES, *self.malformed):
            error = caught(self.make().define, body)
            if error is None:
                continue
            require(isinstance(error, CheckFault), f"body {body!r:.60} raised {type(error).__name__}: {error}")
            require(str(error).strip(), f"body {body!r:.60}: the fault says nothing")
        taken = [b for b in self.malformed if caught(self.make().define, b) is None]
        require(not taken, f"malformed bodies were taken: {taken}")

    @rule("names", cases=corpus.COLUMN_NAMES)
    def columns_may_have_any_name(self, name: str) -> None:
        """A column of any name can be checked: every name is quoted."""
        body = self.body_for(name)
        if body is None:
            raise NotApplicable("the suite says no body for a column")
        rows = f"SELECT CAST(n AS BIGINT) AS {quote_identifier(name)} FROM (VALUES (1), (2), (NULL)) v(n)"
        query = self._query(body, self._relation(rows))
        for sql in (query.count, query.sample, query.detail):
            if sql is not None:
                error = caught(self._database.execute, sql)
                require(error is None, f"the query cannot run: {error}")

    @rule("names")
    def a_column_that_is_missing_is_told(self) -> None:
        """A check of a column that the relation lacks fails; it never passes on something else."""
        body = self.body_for("absent")
        if body is None:
            raise NotApplicable("the suite says no body for a column")
        query = self._query(body, self._relation("SELECT 1 AS there"))
        error = caught(self._database.execute, query.count)
        require(error is not None, "it was answered")

    def _relation(self, rows: str, kind: str = "TABLE") -> str:
        name = quote_path(self._schema, f"it's a {kind.lower()}")
        self._database.execute(f"CREATE OR REPLACE {kind} {name} AS {rows}")
        return name

    def _query(self, body: Any, relation: str) -> CheckQuery:
        made = self.make()
        query = made.query(made.define(body), relation, NOW)
        require(isinstance(query, CheckQuery), f"query() gave a {type(query).__name__}")
        return query

    def _count(self, query: CheckQuery) -> int:
        rows = self._database.execute(query.count).fetchall()
        require(len(rows) == 1, f"the count has {len(rows)} rows")
        if not isinstance(rows[0][0], int):
            raise Broken(f"the first column of the count is no whole number: {rows[0][0]!r}")
        return int(rows[0][0])
