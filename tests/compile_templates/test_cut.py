"""A comparison that is recognised may cut the read: whatever the query is, it must not tell the difference."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pz_core.compile.template import WatermarkCall, sentinel
from pz_core.compile.watermark import DatasetInfo, infer, substitute
from pz_core.errors import Where

W = sentinel("s", "o")
PROFILE = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)

#: Tables of a FROM by alias; ``d`` and ``e`` are the dataset.
TABLES = {"d": "staging.src_s__o", "e": "staging.src_s__o", "x": "staging.other", "y": "(select * from staging.other)"}
JOINS = (
    "join",
    "left join",
    "right join",
    "full join",
    "semi join",
    "anti join",
    "asof join",
    "asof left join",
    "positional join",
)
MARKS = ("> $W", ">= $W - 1", "<= $W + 2")


@st.composite
def conditions(draw: st.DrawFn, aliases: list[str]) -> str:
    atoms = st.sampled_from([f"{a}.ts {m}" for a in aliases if a in "de" for m in MARKS] or ["true"]) | st.sampled_from(
        [f"{a}.k > {n}" for a in aliases for n in (1, 2)] + [f"{a}.ts is null" for a in aliases]
    )
    parts = draw(st.lists(atoms, min_size=1, max_size=3))
    made = parts[0]
    for part in parts[1:]:
        made = f"{made} {draw(st.sampled_from(['and', 'and', 'and', 'or']))} {part}"
    return f"not ({made})" if draw(st.integers(0, 9)) == 0 else made


@st.composite
def selects(draw: st.DrawFn) -> str:
    aliases = draw(st.lists(st.sampled_from(sorted(TABLES)), min_size=1, max_size=3, unique=True))
    text = f"from {TABLES[aliases[0]]} {aliases[0]}"
    for at, alias in enumerate(aliases[1:], 1):
        join = draw(st.sampled_from(JOINS))
        text += f" {join} {TABLES[alias]} {alias}"
        if join != "positional join":
            on = f"{aliases[at - 1]}.k = {alias}.k"
            if join.startswith("asof"):
                on += f" and {aliases[at - 1]}.ts {draw(st.sampled_from(['>=', '<=']))} {alias}.ts"
            elif draw(st.booleans()):
                floor = st.sampled_from([f"{a}.ts > $W" for a in aliases[: at + 1]])
                on += f" and {draw(conditions(aliases[: at + 1]) | floor)}"
            text += f" on {on}"
    # Bounds at random are mostly refused; most of the time each place gets the same floor, so that joins are judged.
    floors = "".join(f" and {alias}.ts > $W" for alias in aliases if alias in "de")
    if draw(st.booleans()):
        text += f" where {draw(conditions(['x']) if 'x' in aliases else st.just('true'))}{floors}"
    elif draw(st.integers(0, 3)) == 0:
        text += f" where {draw(conditions(aliases))}"
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return f"select count(*), sum({aliases[0]}.k), max({aliases[0]}.ts) {text}"
    if kind == 1:
        return f"select row_number() over (order by {aliases[0]}.ts, {aliases[0]}.k) {text}"
    return f"select * {text}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    first = draw(selects())
    how = draw(st.integers(0, 5))
    if how == 0:
        return f"select count(*) from ({first}) union all select count(*) from ({draw(selects())})"
    if how == 1:
        return f"select x.k from staging.other x where {draw(st.sampled_from(['', 'not ']))}exists ({first} limit 1)"
    if how == 2:
        return f"with c as ({first}) select count(*) from c, ({draw(selects())}) b"
    return first


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"threads": "1"}) as made:
        made.execute("create schema staging")
        made.execute("create table full_read as select k % 4 as k, ts from range(12) r(k), range(1, 8) t(ts)")
        made.execute("insert into full_read values (1, null), (null, 5)")
        made.execute(
            "create table staging.other as select k, ts from (values (0, 1), (1, 4), (2, 6), (3, 9), (5, 5)) v(k, ts)"
        )
        yield made


@PROFILE
@given(queries())
def test_a_cut_read_and_a_full_read_give_one_answer(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    sql = text.replace("$W", W)
    call = WatermarkCall("s", "o", Where("p.sql", 1), W)
    datasets = {"s.o": DatasetInfo("s", "o", "src_s__o")}
    made = infer(sql, pipeline="p", where=Where("p.sql"), calls=(call,), datasets=datasets)
    assume(not made.problems.errors and made.incrementals)
    values, types = {"s.o": "4"}, {"s.o": "bigint"}
    run = substitute(made.sql, values, types)
    # Floors reduce to the loosest and ceilings to the tightest: what is read is at least what every place asks for.
    bounds = [(b.op, substitute(b.expression, values, types)) for b in made.incrementals["s.o"].bounds]
    floors = " or ".join(f"ts {op} {value}" for op, value in bounds if op.startswith(">"))
    ceilings = " and ".join(f"ts {op} {value}" for op, value in bounds if op.startswith("<")) or "true"
    answers = []
    for keep in ("true", f"ts is null or (({floors}) and {ceilings})", f"({floors}) and {ceilings}"):
        connection.execute(f"create or replace table staging.src_s__o as select * from full_read where {keep}")
        try:
            answers.append(sorted(map(repr, connection.execute(run).fetchall())))
        except duckdb.Error:  # a query that does not bind, or joins in a way that DuckDB lacks
            answers.append([])
    assert answers[0] == answers[1] == answers[2]
