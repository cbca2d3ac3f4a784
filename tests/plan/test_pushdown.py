"""What is pushed to a source never changes what the pipeline makes of its rows: by example."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pz_core.compile.model import CheckNode, Graph, Incremental, PipelineNode
from pz_core.contract import CheckDefinition, ReadHints
from pz_core.contract.hints import fitting_hints
from pz_core.plan.planner import make_plan
from pz_core.plan.pushdown import Pushdown, derive
from pz_core.project.model import CheckEntry
from pz_core.values import Column

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
        (ReadHints(None, "p", {"id": ("integer", "DECIMAL(3,2)", "double")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"d": ("integer", "DECIMAL(3,2)", "double", "any")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"id": ("text",)}), ReadHints()),
        (ReadHints(None, "p", {"Note": ("text", "date text")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"note": ("text",)}), ReadHints()),
        (ReadHints(None, "p", {"at": ("date", "date text", "timestamp text")}), ReadHints(None, "p")),
        (ReadHints(None, "p", {"at": ("text",)}), ReadHints()),
        (ReadHints(None, "p", {"d": ("DECIMAL(3,3)",)}), ReadHints()),
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
