"""What is pushed to a source never changes a result: every kind of join, and random queries, each run both ways."""

from __future__ import annotations

import os
import random
from functools import cache

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pz_core.contract import ReadHints
from pz_core.contract.hints import fitting_hints
from pz_core.plan.pushdown import derive
from pz_core.values import Column, quote_identifier

RELATION = "src_c__r"
R, S = f"staging.{RELATION}", "staging.src_c__s"


@cache
def database() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET threads = 1")
    con.execute("CREATE SCHEMA staging")
    return con


def outcome(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[list[str], list[str]] | None:
    """Names and rows, in an order of no matter; ``None`` where the query fails."""
    try:
        answer = con.execute(sql)
        names = [column[0] for column in answer.description]
        return names, sorted(map(repr, answer.fetchall()))
    except duckdb.Error:
        return None


def cut(con: duckdb.DuckDBPyConnection, hints: ReadHints) -> None:
    """Replace the table by what a source would give."""
    columns = [Column(row[0], row[1]) for row in con.execute(f"DESCRIBE {R}").fetchall()]
    fitting = fitting_hints(hints, columns)
    chosen = "*" if fitting.columns is None else ", ".join(map(quote_identifier, fitting.columns))
    where = f" WHERE {fitting.predicate}" if fitting.predicate else ""
    con.execute(f"CREATE OR REPLACE TABLE {R} AS SELECT {chosen} FROM {R}{where}")


# --- every kind of join ----------------------------------------------------------------------------------------------

KINDS = ("join", "left join", "right join", "full join", "semi join", "anti join", "asof join", "asof left join")
KINDS = (*KINDS, "natural join", "natural left join", "positional join", "cross join")
THIRDS = ("", *(f" {side} join {S} t on t.x = 1" for side in ("left", "right", "full")))
CONDITIONS = ("r.k is null", "r.b is distinct from 'a'", "not (r.k = 1 or r.b = 'a')")
CONDITIONS = (*CONDITIONS, "r.k not in (1, 9)", "r.b like 'a%' and s.x is null")
ROWS_R = "(1, 'a'), (1, 'b'), (2, NULL), (3, 'ab'), (NULL, 'a'), (NULL, NULL), (9, 'z')"
ROWS_S = "(1, 1), (1, NULL), (2, 5), (4, 4), (NULL, 7), (8, NULL)"


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_join_gives_other_rows(kind: str) -> None:
    con = database()
    con.execute(f"CREATE OR REPLACE TABLE {S} AS FROM (VALUES {ROWS_S}) v(k, x)")
    for sides in ((f"{R} r", f"{S} s"), (f"{S} s", f"{R} r")):
        on = "" if kind.split()[0] in ("natural", "positional", "cross") else " on r.k = s.k"
        if kind.startswith("asof"):
            on = f" on {sides[0][-1]}.k >= {sides[1][-1]}.k"
        for condition in CONDITIONS:
            for third in THIRDS:
                con.execute(f"CREATE OR REPLACE TABLE {R} AS FROM (VALUES {ROWS_R}) v(k, b)")
                tables = f"{f' {kind} '.join(sides)}{on}{third}"
                sql = f"select count(*), count(r.k), sum(r.k) from {tables} where {condition}"
                whole = outcome(con, sql)
                cut(con, derive(sql, RELATION).hints)
                assert whole is None or outcome(con, sql) == whole, sql


# --- random queries --------------------------------------------------------------------------------------------------

STRUCT = "STRUCT(k INTEGER, z VARCHAR)"
ALL_R = {"a": "INTEGER", "b": "VARCHAR", "k": "INTEGER", "d": "DATE", "p": STRUCT, "f": "BOOLEAN"}
ALL_S = {"k": "INTEGER", "b": "VARCHAR", "x": "INTEGER"}
VALUES = {
    "INTEGER": ["NULL", "0", "1", "2", "3", "-1"],
    "VARCHAR": ["NULL", "''", "'a'", "'b'", "'ab'", "'1'"],
    "DATE": ["NULL", "DATE '2026-01-01'", "DATE '2026-01-02'"],
    "BOOLEAN": ["NULL", "true", "false"],
    STRUCT: ["NULL", "{'k': 1, 'z': 'a'}", "{'k': 2, 'z': NULL}"],
}


class Maker:
    """Makes a query of random shape out of a seed; most of them bind."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def any(self, *choices: str) -> str:
        return self.dice.choice(choices)

    def often(self, share: float = 0.5) -> bool:
        return self.dice.random() < share

    def column(self, alias: str, table: str) -> str:
        names = list(ALL_R if table == R else ALL_S)
        name = self.any(*(n for n in names if n != "p"))
        if table == R and self.often(0.05):
            return f"{alias}.p.z"
        return f"{alias}.{name}" if self.often(0.9) else name

    def literal(self) -> str:
        return self.any("0", "1", "2", "1.5", "'a'", "'1'", "''", "'2026-01-01'", "DATE '2026-01-02'", "true", "1e0")

    def atom(self, alias: str, table: str) -> str:
        column = self.column(alias, table)
        return self.any(
            f"{column} {self.any('=', '<>', '<', '<=', '>', '>=', 'is distinct from')} {self.literal()}",
            f"{self.literal()} < {column}",
            f"{alias}.k {self.any('=', '<>', '<', '>', '>=')} {self.any('0', '1', '2', '1.5')}",
            f"{alias}.b {self.any('=', '<>', '<', 'like', 'not like')} '{self.any('a', '%b')}'",
            f"{alias}.k in ({self.any('0', '1')}, {self.any('2', '3')})",
            f"{alias}.k not in (1, 2)",
            f"{alias}.k between {self.any('0', '1')} and {self.any('1', '2')}",
            f"{column} is {self.any('null', 'not null')}",
            # True for a row that an outer join has filled up: the filters that must not go below one.
            f"{alias}.k is null",
            f"{alias}.b is distinct from 'a'",
            f"coalesce({alias}.k, 1) = 1",
            f"cast({alias}.b as int) = 1",
            f"10 // {alias}.k > 3",
            f"{alias}.k = (select max(k) from {S})",
            f"exists (select 1 from {S} e where e.k = {alias}.k)",
        )

    def condition(self, tables: list[tuple[str, str]]) -> str:
        parts = []
        for _ in range(self.dice.randint(1, 3)):
            alias, table = self.dice.choice(tables)
            one = self.atom(alias, table)
            if self.often(0.25):
                one = f"({one} or {self.atom(*self.dice.choice(tables))})"
            parts.append(f"not {one}" if self.often(0.15) and one.startswith("(") else one)
        return " and ".join(parts)

    def tables(self) -> tuple[str, list[tuple[str, str]]]:
        """A FROM and the tables that can be named in what stands beside it."""
        r = (self.any("r", "r", "q"), R)
        if self.often(0.35):
            if self.often(0.2):
                return R, [(RELATION, R)]
            return f"{R} {r[0]}", [r]
        s = ("s", S)
        first, second = (r, s) if self.often() else (s, r)
        inner = f"(select k, b, x from {S} where {self.atom('src_c__s', S)})" if self.often(0.2) else None
        spelled = {R: R, S: inner or S}
        kind = self.any("join", "left join", "right join", "full join", "semi join", "anti join", ",", "cross join")
        text = f"{spelled[first[1]]} {first[0]} "
        if kind in (",", "cross join"):
            return f"{text}{kind} {spelled[second[1]]} {second[0]}", [first, second]
        if self.often(0.06):
            kind = self.any("natural join", "positional join")
            return f"{text}{kind} {spelled[second[1]]} {second[0]}", [first, second]
        if self.often(0.08):
            how = self.any("asof join", "asof left join")
            return f"{text}{how} {spelled[second[1]]} {second[0]} on {first[0]}.k >= {second[0]}.k", [first, second]
        on = f"on {first[0]}.k = {second[0]}.k" if self.often(0.8) else "using (k)"
        if on.startswith("on") and self.often(0.3):
            on += f" and {self.atom(*self.dice.choice([first, second]))}"
        named = [first] if kind in ("semi join", "anti join") else [first, second]
        text = f"{text}{kind} {spelled[second[1]]} {second[0]} {on}"
        if self.often(0.2):
            outer = self.any("left join", "right join", "full join", "join")
            text = f"{text} {outer} {S} t on t.k = {named[0][0]}.k"
            named = [*named, ("t", S)]
        return text, named

    def select(self, depth: int = 0, arity: int | None = None) -> str:
        text, tables = self.tables()
        where = f" where {self.condition(tables)}" if self.often(0.8) else ""
        width = arity or self.dice.randint(1, 3)
        columns = [self.column(*self.dice.choice(tables)) for _ in range(width)]
        if arity is not None:
            columns = [f"cast({column} as varchar)" for column in columns]
        named = [f"{column} as c{i}" if self.often(0.6) else column for i, column in enumerate(columns)]
        how = self.any("plain", "plain", "plain", "group", "window", "distinct", "star", "qualify", "scalar")
        if arity is None and how == "star" and self.often(0.5):
            return f"select {self.any('*', tables[0][0] + '.*', 'count(*)')} from {text}{where}"
        if how == "group":
            keys = self.any("all", ", ".join(str(i + 1) for i in range(width)))
            more = ", count(*) as n" if arity is None else ""
            having = " having count(*) > 1" if self.often(0.3) else ""
            return f"select {', '.join(named)}{more} from {text}{where} group by {keys}{having}"
        over = f"count(*) over (partition by {tables[0][0]}.k)"
        if how == "window" and arity is None:
            return f"select {', '.join(named)}, {over} as w from {text}{where}"
        if how == "qualify":
            return f"select {', '.join(named)} from {text}{where} qualify {over} > 1"
        if how == "scalar" and depth == 0 and arity is None:
            return f"select {', '.join(named)}, ({self.select(1, 1)} order by 1 limit 1) as v from {text}{where}"
        distinct = "distinct " if how == "distinct" else ""
        order = f" order by {self.any('1', 'c0', columns[0])}" if self.often(0.3) and arity is None else ""
        return f"select {distinct}{', '.join(named)} from {text}{where}{order}"

    def query(self) -> str:
        shape = self.any("plain", "plain", "cte", "set", "nested", "exists")
        if shape == "cte":
            body = self.select()
            stars = ("select * from f", "select count(*) from f", f"select f.* from f, {S} s")
            outer = self.any(*stars, "select c0 from f where c0 = 1")
            return f"with f as ({body}) {outer}"
        if shape == "set":
            word = self.any("union all", "union", "except", "intersect")
            return f"({self.select(0, 2)}) {word} ({self.select(0, 2)})"
        if shape == "nested":
            return f"select * from ({self.select()}) n"
        if shape == "exists":
            return f"select x from {S} s where {self.any('', 'not ')}exists ({self.select(1)})"
        return self.select()


def rows(dice: random.Random, columns: dict[str, str]) -> list[str]:
    return [f"({', '.join(dice.choice(VALUES[kind]) for kind in columns.values())})" for _ in range(dice.randint(0, 7))]


def fill(con: duckdb.DuckDBPyConnection, seed: int) -> None:
    dice = random.Random(seed)
    for name, columns in ((R, ALL_R), (S, ALL_S)):
        con.execute(f"CREATE OR REPLACE TABLE {name} ({', '.join(f'{n} {k}' for n, k in columns.items())})")
        made = rows(dice, columns)
        if made:
            con.execute(f"INSERT INTO {name} VALUES {', '.join(made)}")


def compare(seed: int) -> tuple[bool, bool, bool]:
    """Run one random query both ways; whether it ran, and what was pushed."""
    sql = Maker(seed).query()
    hints = derive(sql, RELATION).hints
    con = database()
    fill(con, seed)
    whole = outcome(con, sql)
    cut(con, hints)
    if whole is not None:
        assert outcome(con, sql) == whole, f"{sql}\n{hints}"
    return whole is not None, hints.columns is not None, hints.predicate is not None


@given(st.integers(0, 2**48))
@settings(max_examples=50)
def test_pushdown_never_changes_a_result(seed: int) -> None:
    compare(seed)


def test_random_queries_mostly_run_and_often_push() -> None:
    made = [compare(seed) for seed in range(100)]
    assert sum(ran for ran, _, _ in made) > 50
    assert sum(ran and columns for ran, columns, _ in made) > 40
    assert sum(ran and filtered for ran, _, filtered in made) > 12


@pytest.mark.deep
@pytest.mark.skipif(not os.environ.get("PZ_DEEP"), reason="needs PZ_DEEP=1")
@given(st.integers(0, 2**48))
@settings(max_examples=20_000)
def test_pushdown_never_changes_a_result_deep(seed: int) -> None:
    compare(seed)
