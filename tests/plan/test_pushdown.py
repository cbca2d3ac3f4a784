"""What is pushed to a source never changes what the pipeline makes of its rows: by example, and by random queries."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pz_core.compile.model import CheckNode, Graph, Incremental, PipelineNode
from pz_core.contract import CheckDefinition, ReadHints
from pz_core.contract.hints import fitting_hints
from pz_core.plan.planner import make_plan
from pz_core.plan.pushdown import Pushdown, derive
from pz_core.project.model import CheckEntry
from pz_core.values import Column, quote_identifier

RELATION = "src_c__r"
R, S = f"staging.{RELATION}", "staging.src_c__s"


def pushed(sql: str, **options: Any) -> Pushdown:
    return derive(sql.replace("{R}", R).replace("{S}", S), RELATION, **options)


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("select id, amount from {R} where status = 'x'", ("amount", "id", "status")),
        ("select o.id, c.name from {R} o join {S} c on c.id = o.customer_id", ("customer_id", "id")),
        ("select ID, id + 1 as next from {R} order by next", ("ID",)),
        ("select sum(a) as total from {R} group by b having total > 1 order by total", ("a", "b")),
        ("with f as (select id, b as c from {R}) select * from f where c > 1", ("b", "id")),
        ("select count(*) filter (where a > 1) from {R}", ("a",)),
        ("select a from {R} union all select b from {R}", ("a", "b")),
        ("select o.payload.kind from {R} as o", ("payload",)),
        ("select order_id from {R} o join {S} c using (customer_id)", ("customer_id", "order_id")),
        ("select x from {S} where exists (select 1 from {R} r where r.k = src_c__s.k)", ("k",)),
        (f"select {R}.a, {RELATION}.b from {{R}}", ("a", "b")),
        ("select c.* from {S} c where c.k in (select k from {R})", ("k",)),
        ('select "A b", "Ä" from {R}', ("A b", "Ä")),
    ],
)
def test_columns_that_a_query_names_are_kept(sql: str, columns: tuple[str, ...]) -> None:
    made = pushed(sql)
    assert made.columns == columns
    assert made.hints.columns is not None and set(columns) <= set(made.hints.columns)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from {R}",
        "from {R}",
        "select r.* from {R} r",
        "select s.*, r.a from {R} r, {S} s",
        "select columns('a.*') from {R}",
        "select a from {R} natural join {S}",
        "select r from {R} r",
        f"select count({RELATION}) from {{R}}",
        "select #1, a from {R}",
        "select x from {R} as r(x, y)",
        "select a from {R} using sample 5",
        "select a from {R} tablesample 10%",
        "select a from {R} positional join {S}",
        "select count(*) from {R}",
        "summarize {R}",
        f"select a from {RELATION}",
        f"select a from other.staging.{RELATION}",
        f"select a from {{R}} where exists (from query_table('staging.{RELATION}'))",
        "select a from {R}, (from query('select 1'))",
        "select a from nowhere",
        "select a from {R}; select 1",
        "select from where",
        "pivot {R} on a using sum(b)",
    ],
)
def test_nothing_is_cut_where_the_query_may_see_all_columns(sql: str) -> None:
    made = pushed(sql)
    assert (made.columns, made.hints.columns) == (None, None)


def test_the_cursor_is_never_cut() -> None:
    assert pushed("select a from {R}", cursor="Updated").columns == ("a", "Updated")


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "predicate"),
    [
        ("select * from {R} where a > 1 and b = 'it''s'", """("a" > 1) AND ("b" = 'it''s')"""),
        ("select * from {R} where 1.50 <= a", '(1.50 <= "a")'),
        ("select * from {R} where a between -2 and 1e3", '("a" BETWEEN -2 AND 1.00000000000000000e+03)'),
        ("select * from {R} where not (a in (1, 2) or b like 'x%')", """(NOT (("a" IN (1, 2)) OR ("b" LIKE 'x%')))"""),
        ("select * from {R} where d >= date '2026-01-01'", "(\"d\" >= CAST('2026-01-01' AS DATE))"),
        ("select * from {R} where a is null and upper(b) = 'X'", '("a" IS NULL)'),
        ("select r.a from {R} r left join {S} s on s.k = r.k where r.a <> 1 and s.x > 2", '("a" <> 1)'),
        ("select r.a from {S} s right join {R} r on s.k = r.k where r.a <> 1", '("a" <> 1)'),
        ("select r.a from {R} r anti join {S} s on s.k = r.k where r.a not in (1)", '("a" NOT IN (1))'),
        ("select r.a from {R} r asof join {S} s on r.k >= s.k where r.a = 1", '("a" = 1)'),
        ("with f as (select a + 1 as c from {R} where a > 1) select * from f where c > 5", '("a" > 1)'),
        ("select 1 union all (select a from {R} where a > 1)", '("a" > 1)'),
        (f"select a from {{R}} where {RELATION}.a = 1 and {R}.b = 2", '("a" = 1) AND ("b" = 2)'),
    ],
)
def test_conjuncts_of_one_table_are_pushed(sql: str, predicate: str) -> None:
    assert pushed(sql).hints.predicate == predicate


@pytest.mark.parametrize(
    "sql",
    [
        "select s.* from {S} s left join {R} r on r.k = s.k where r.k is null",
        "select r.a from {R} r right join {S} s on r.k = s.k where r.a > 1",
        "select r.a from {R} r full join {S} s on r.k = s.k where r.a > 1",
        "select r.a from ({R} r join {S} s on r.k = s.k) right join {S} t on true where r.a > 1",
        "select r.a from {S} s asof join {R} r on s.k >= r.k where r.a > 1",
        "select r.a from {R} r positional join {S} s where r.a > 1",
        "select r.a from {R} r natural join {S} s where r.a > 1",
        "select r.a from {R} r join {S} s on r.k = s.k and r.a > 1",
        "select r.a from {R} r join {R} q on r.k = q.k where r.a > 1",
        "select r.a from {R} r where r.a > 1 and exists (select 1 from {R})",
        "select a from {R}, {S} where a > 1",
        "select a + 1 as c from {R} where c > 1",
        "select b as a from {R} where a > 1",
        "select a from {R} where a > 1 or random() > 0.5",
        "select a from {R} where a + 1 > 2",
        "select a from {R} where a > b",
        "select a from {R} where cast(b as int) > 1",
        "select a from {R} where 10 / a > 1",
        "select a from {R} where a > (select 1)",
        "select a from {R} where a",
        "select a from {R} where a = null",
        "select a from {R} where a > '__pz_watermark__c__r__'",
        "select a from {R} having a > 1",
        "select a from {R} qualify row_number() over () = 1",
        "select a from {R} where rowid < 3 and a > 1",
        "select a from {R} where r.a > 1",
        "select x from {R} as q(x) where x > 1",
        "select case when a > 1 then 2 end from {R}",
    ],
)
def test_a_filter_stays_where_it_could_change_the_result(sql: str) -> None:
    assert pushed(sql).hints.predicate is None


COLUMNS = (Column("id", "BIGINT"), Column("Note", "VARCHAR"), Column("at", "TIMESTAMP"), Column("d", "DECIMAL(38,2)"))


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (ReadHints(("AT", "nope", "ID")), ReadHints(("id", "at"))),
        (ReadHints(("nope",)), ReadHints()),
        (ReadHints(("id", "note", "at", "d")), ReadHints()),
        (ReadHints(None, "p", {"id": ("integer", "decimal")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"id": ("text",)}), ReadHints()),
        (ReadHints(None, "p", {"Note": ("text", "date text")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"note": ("text",)}), ReadHints()),
        (ReadHints(None, "p", {"at": ("date", "date text", "timestamp text")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"at": ("text",)}), ReadHints()),
        (ReadHints(None, "p", {"d": ("decimal",)}), ReadHints()),
        (ReadHints(None, "p", {"missing": ("any",)}), ReadHints()),
    ],
)
def test_hints_are_fitted_to_the_columns_that_are_there(hints: ReadHints, expected: ReadHints) -> None:
    assert fitting_hints(hints, COLUMNS) == expected


# --- in a plan -------------------------------------------------------------------------------------------------------

SQL = "select id from staging.src_in__a where status = 'x'"


def planned(lab: Any, *, others: tuple[Any, ...] = (), able: dict[str, Any] | None = None, **source: Any) -> Any:
    capable = {"column_pruning": True, "predicate_pushdown": True} if able is None else able
    connector = lab.connector(capabilities=replace(lab.files, **capable))
    node = lab.source(**source)
    pipeline = PipelineNode("p1", "p", "pipelines/p.sql", SQL, depends_on=("s1",))
    graph = Graph(lab.project(), (node, pipeline, *others))
    return make_plan(graph, lab.registry(fake=connector)).nodes[0]


def test_a_plan_pushes_what_the_connector_can_do(lab: Any) -> None:
    both = planned(lab)
    assert (both.columns_pushed, both.predicate_pushed) == (("id", "status"), True)
    assert both.task.read.hints == ReadHints(("id", "status"), "(\"status\" = 'x')", {"status": ("text",)})
    pruned = planned(lab, able={"column_pruning": True})
    assert (pruned.columns_pushed, pruned.predicate_pushed) == (("id", "status"), False)
    assert pruned.task.read.hints == ReadHints(("id", "status"))
    filtered = planned(lab, able={"predicate_pushdown": True})
    assert (filtered.columns_pushed, filtered.predicate_pushed) == (None, True)
    assert planned(lab, able={}).task.read.hints == ReadHints()


def test_a_read_that_resumes_keeps_its_rows_and_its_cursor(lab: Any) -> None:
    made = planned(lab, incremental=Incremental("at"))
    assert (made.columns_pushed, made.predicate_pushed) == (("at", "id", "status"), False)


def test_a_contract_is_enforced_on_all_that_it_names(lab: Any) -> None:
    assert planned(lab, columns={"id": "bigint", "status": "varchar"}).task.read.hints == ReadHints()


@pytest.mark.parametrize("sql", ["select * from staging.SRC_IN__A where x", "from query('select ' || 1)"])
def test_a_table_that_others_may_look_at_is_landed_whole(lab: Any, sql: str) -> None:
    entry = CheckEntry(CheckDefinition("custom_sql", (), {"sql": sql}, "c"))
    check = CheckNode("c1", "check_p_c", "p", entry, True, depends_on=("p1",))
    other = PipelineNode("p2", "q", "pipelines/q.sql", sql)
    assert planned(lab, others=(check,)).task.read.hints == ReadHints()
    assert planned(lab, others=(other,)).task.read.hints == ReadHints()


# --- random queries ----------------------------------------------------------------------------------------------------

#: What happens to be in no table stands for a name of another relation, or a mistake.
NUMBERS, TEXTS = ("a", "k"), ("b", "s")
ALL_R = {"a": "INTEGER", "b": "VARCHAR", "k": "INTEGER", "d": "DATE", "p": "STRUCT(k INTEGER, z VARCHAR)", "f": "BOOLEAN"}
ALL_S = {"k": "INTEGER", "b": "VARCHAR", "x": "INTEGER"}
VALUES = {
    "INTEGER": ["NULL", "0", "1", "2", "3", "-1"],
    "VARCHAR": ["NULL", "''", "'a'", "'b'", "'ab'", "'1'"],
    "DATE": ["NULL", "DATE '2026-01-01'", "DATE '2026-01-02'"],
    "BOOLEAN": ["NULL", "true", "false"],
    "STRUCT(k INTEGER, z VARCHAR)": ["NULL", "{'k': 1, 'z': 'a'}", "{'k': 2, 'z': NULL}"],
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
            f"{alias}.b {self.any('=', '<>', '<', 'like', 'not like')} {self.any(chr(39) + 'a' + chr(39), chr(39) + chr(37) + 'b' + chr(39))}",
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

    def tables(self, depth: int) -> tuple[str, list[tuple[str, str]]]:
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
        text, tables = self.tables(depth)
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
        if how == "window" and arity is None:
            over = f"(partition by {tables[0][0]}.k)"
            return f"select {', '.join(named)}, count(*) over {over} as w from {text}{where}"
        if how == "qualify":
            return f"select {', '.join(named)} from {text}{where} qualify count(*) over (partition by {tables[0][0]}.k) > 1"
        if how == "scalar" and depth == 0 and arity is None:
            return f"select {', '.join(named)}, ({self.select(1, 1)} order by 1 limit 1) as v from {text}{where}"
        distinct = "distinct " if how == "distinct" else ""
        order = f" order by {self.any('1', 'c0', columns[0])}" if self.often(0.3) and arity is None else ""
        return f"select {distinct}{', '.join(named)} from {text}{where}{order}"

    def query(self) -> str:
        shape = self.any("plain", "plain", "cte", "set", "nested", "exists")
        if shape == "cte":
            body = self.select()
            outer = self.any("select * from f", "select count(*) from f", f"select f.* from f, {S} s", "select c0 from f where c0 = 1")
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
    con.execute("SET threads = 1")
    con.execute("CREATE SCHEMA staging")
    for name, columns in ((R, ALL_R), (S, ALL_S)):
        con.execute(f"CREATE TABLE {name} ({', '.join(f'{n} {k}' for n, k in columns.items())})")
        made = rows(dice, columns)
        if made:
            con.execute(f"INSERT INTO {name} VALUES {', '.join(made)}")


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


def compare(seed: int) -> tuple[bool, bool, bool]:
    """Run one random query both ways; whether it ran, and what was pushed."""
    sql = Maker(seed).query()
    hints = derive(sql, RELATION).hints
    with duckdb.connect() as con:
        fill(con, seed)
        whole = outcome(con, sql)
        cut(con, hints)
        if whole is not None:
            assert outcome(con, sql) == whole, f"{sql}\n{hints}"
    return whole is not None, hints.columns is not None, hints.predicate is not None


@given(st.integers(0, 2**48))
@settings(max_examples=60)
def test_pushdown_never_changes_a_result(seed: int) -> None:
    compare(seed)


def test_random_queries_mostly_run_and_often_push() -> None:
    made = [compare(seed) for seed in range(150)]
    assert sum(ran for ran, _, _ in made) > 90
    assert sum(ran and columns for ran, columns, _ in made) > 40
    assert sum(ran and filtered for ran, _, filtered in made) > 25


@pytest.mark.deep
@pytest.mark.skipif(not os.environ.get("PZ_DEEP"), reason="needs PZ_DEEP=1")
@given(st.integers(0, 2**48))
@settings(max_examples=20_000)
def test_pushdown_never_changes_a_result_deep(seed: int) -> None:
    compare(seed)


