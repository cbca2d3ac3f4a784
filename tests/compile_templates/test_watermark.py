from __future__ import annotations

import datetime

import duckdb
import pytest

from pz_core.compile.template import WatermarkCall, sentinel
from pz_core.compile.watermark import DatasetInfo, Inferred, infer, literal, substitute
from pz_core.errors import Where
from pz_core.project.model import SyncConfig

W = sentinel("shop", "orders")
F = "staging.src_shop__orders"
ITEMS = "staging.src_shop__items"
COLUMNS = {"id": "bigint", "ts": "timestamp", "created": "timestamp", "price": "decimal(10,2)", "flag": "boolean"}


def inferred(
    text: str, *, columns: dict[str, str] | None = COLUMNS, sync: SyncConfig | None = None, read: bool = True
) -> Inferred:
    """``F``, ``I`` and ``W`` in the text stand for two datasets and the watermark of the first."""
    sql = text.replace("$F", F).replace("$I", ITEMS).replace("$W", W)
    datasets = {"shop.items": DatasetInfo("shop", "items", "src_shop__items")}
    if read:
        datasets["shop.orders"] = DatasetInfo("shop", "orders", "src_shop__orders", columns, sync)
    call = WatermarkCall("shop", "orders", Where("pipelines/o.sql", 4), W)
    return infer(sql, pipeline="o", where=Where("pipelines/o.sql"), calls=(call,), datasets=datasets)


def bounds(made: Inferred) -> list[tuple[str, str]]:
    assert not made.problems.errors, made.problems.errors
    return [(b.op, b.expression.replace(W, "$W")) for b in made.incrementals["shop.orders"].bounds]


def refused(made: Inferred) -> list[str]:
    assert not made.incrementals
    assert all(e.where == Where("pipelines/o.sql", 4) and e.hint for e in made.problems.errors)
    return [e.code for e in made.problems.errors]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("select 1 from $F as t where t.ts > $W", [(">", "$W")]),
        ("select 1 from $F where $W <= ts", [(">=", "$W")]),
        ("select 1 from $F where $W < ts and flag", [(">", "$W")]),
        ("select 1 from $F where ts >= $W - interval 2 hour", [(">=", "$W - interval 2 hour")]),
        ("select 1 from $F where ts >= date_trunc('day', $W) limit 3", [(">=", "date_trunc('day', $W)")]),
        ("select 1 from $F where left($W, 10) < ts group by 1", [(">", "left($W, 10)")]),
        (
            "select 1 from $F where ts > case when 1 = 1 and 2 = 2 then $W end and id > 2",
            [(">", "case when 1 = 1 and 2 = 2 then $W end")],
        ),
        ("select 1 from $F where id between 1 and 2 and (((ts > ($W)::timestamp)))", [(">", "($W)::timestamp")]),
        ("select 1 from $F where ts > $W and $W + interval 1 day >= ts", [(">", "$W"), ("<=", "$W + interval 1 day")]),
        ("select 1 from $F where ts > $W and ts <= timestamp '2026-06-01'", [(">", "$W")]),
        ("with c as (select * from $F where ts > $W) select id from c", [(">", "$W")]),
        ("select (select max(ts) from $F where ts > $W)", [(">", "$W")]),
        ("select 1 from $F where ts > $W union all select 2", [(">", "$W")]),
        ("select 1 from $F where ts > $W union all select 2 from $F x where x.ts > $W and flag", [(">", "$W")]),
        ("select 1 from $F a, (select 1 as id) b where ts > $W", [(">", "$W")]),
        ("select 1 from $F a join $I b on a.id = b.id and a.ts > $W", [(">", "$W")]),
        ("select 1 from $I b left join $F a on a.id = b.id and a.ts > $W", [(">", "$W")]),
        ("select 1 from $F a right join $I b on a.id = b.id and a.ts > $W", [(">", "$W")]),
        ("select 1 from $F a full join $I b on a.id = b.id where a.ts > $W", [(">", "$W")]),
        ("select 1 from $F a semi join $I b on a.id = b.id and a.ts > $W", [(">", "$W")]),
        ("select 1 from $I b anti join $F a on a.id = b.id and a.ts > $W", [(">", "$W")]),
        ("select 1 from $F where staging.src_shop__orders.ts > $W;", [(">", "$W")]),
        ("select 1 from $F where price > $W", [(">", "$W")]),
        ("select '日本' from $F o where /* é */ o.ts -- ü\n > -- ö\n $W -- end", [(">", "$W")]),
    ],
)
def test_what_is_recognised(text: str, wanted: list[tuple[str, str]]) -> None:
    assert bounds(inferred(text)) == wanted


@pytest.mark.parametrize(
    "condition",
    [
        "ts = $W",
        "ts <> $W",
        "ts is distinct from $W",
        "ts between $W and timestamp '2026-06-01'",
        "ts in ($W)",
        "ts like $W",
        "date_trunc('day', ts) > $W",
        "ts::date > $W",
        "ts + interval 1 hour > $W",
        "coalesce(ts, created) > $W",
        "(id, ts) > ($W, 1)",
        "ts > $W - id",
        "ts > greatest($W, created)",
        "$W > $W",
        "ts > greatest($W, $W)",
        "ts > (select $W)",
        "ts > (select max(x) from t where x > $W)",
        "ts > greatest($W, now())",
        "ts > greatest($W, current_timestamp)",
        "ts > greatest($W, ago(interval 1 hour))",
        "id > $W - random() * 10",
        "id > $W + nextval('s')",
        "ts > age($W)",
        "ts > $W + $1",
        "ts > coalesce($W, get_current_timestamp())",
        "ts > greatest($W, today())",
        "ts > $W + clock_timestamp()",
        "flag or ts > $W",
        "id > 0 and (id = 1 or (flag and ts > $W))",
        "not (ts <= $W)",
        "not ts > $W",
        "not not ts > $W",
        "flag and not ts < $W",
        "not (flag and ts > $W)",
        "case when flag then ts > $W else true end",
        "(ts > $W) is true",
        "(ts > $W) = true",
        "(ts > $W)::boolean",
        "coalesce(ts > $W, true)",
        "$W is null or ts > $W",
        "o.ts > $W",
        "ts.x > $W",
        "a.b.c.d > $W",
        "exists (select 1 from $I i where src_shop__orders.ts > $W)",
        "z = $$ __pz_watermark__shop__orders__ $$ and ts > $W",
        "'x$W' = 'y'",
        "ts > $W and $W",
    ],
)
def test_what_is_not(condition: str) -> None:
    made = inferred(f"select 1 from $F where {condition}")
    assert set(refused(made)) == {"PZ0224"}
    assert "'o'" in made.problems.errors[0].message and "shop.orders" in made.problems.errors[0].message
    assert "__pz_watermark" not in made.problems.errors[0].message or "syntax" in made.problems.errors[0].message


@pytest.mark.parametrize(
    "text",
    [
        "select $W from $F where ts > $W",
        "select max(ts) from $F group by id having max(ts) > $W",
        "select 1 from $F qualify ts > $W",
        "select 1 from $F order by ts > $W",
        "select 1 from $F a join $I b on a.id = b.id where ts > $W",
        "select 1 from $I d, $F t where d.ts > $W",
        "select 1 from (select * from $F) t where t.ts > $W",
        "with src_shop__orders as (select 1 as ts) select 1 from src_shop__orders where ts > $W",
        "select 1 from $F t(a, ts) where t.ts > $W",
        "select 1 from $F t tablesample 10% where t.ts > $W",
        "select 1 from $F t full join $I i on t.id = i.id and t.ts > $W",
        "select 1 from $F t left join $I i on t.id = i.id and t.ts > $W",
        "select 1 from $I i right join $F t on t.id = i.id and t.ts > $W",
        "select 1 from $F t anti join $I i on t.id = i.id and t.ts > $W",
        "select 1 from $F t positional join $I i where t.ts > $W",
        "select 1 from $I i asof join $F t on i.id = t.id and i.ts >= t.ts where t.ts > $W",
        "select 1 from $F a join $F b on a.id = b.id where a.ts > $W",
        "select 1 from $F where ts > $W union all select 2 from $F",
        "select 1 from $F where ts > $W union all select 2 from $F where ts >= $W",
        "select 1 from $F where id in (select id from $F where ts > $W)",
        "select 1,, 2 from $F where ts > $W",
        "delete from $F where ts > $W",
        "select * from (pivot $F on id using sum(id)) where ts > $W",
    ],
)
def test_places_where_it_means_nothing(text: str) -> None:
    assert set(refused(inferred(text))) == {"PZ0224"}


def test_the_pipeline_must_read_the_dataset() -> None:
    assert refused(inferred("select 1 from $I where ts > $W", read=False)) == ["PZ0224"]


def test_the_message_shows_the_condition_as_it_was_written() -> None:
    message = inferred("select 1 from $F where ts > greatest($W, now())").problems.errors[0].message
    assert "ts > greatest(watermark('shop', 'orders'), now())" in message and "now()" in message


@pytest.mark.parametrize(
    ("text", "options", "code", "named"),
    [
        ("select 1 from $F where ts > $W", {"sync": SyncConfig("auto")}, "PZ0315", "auto"),
        ("select 1 from $F where ts > $W", {"sync": SyncConfig("cdc")}, "PZ0315", "cdc"),
        ("select 1 from $F where ts > $W", {"sync": SyncConfig("incremental", "ts")}, "PZ0225", "shop.orders"),
        ("select 1 from $F where ts > $W and created < $W", {}, "PZ0231", "created, ts"),
        ("select 1 from $F a, $F b where a.ts > $W and b.created > $W", {}, "PZ0231", "created, ts"),
        ("select 1 from $F where bonus > $W", {}, "PZ0227", "bonus"),
        ("select 1 from $F where flag > $W", {}, "PZ0227", "boolean"),
        ("select 1 from $F where ts > $W", {"columns": {"ts": "TIMESTAMP"}}, "PZ0227", "TIMESTAMP"),
        ("select 1 from $F where ts <= $W + interval 7 day", {}, "PZ0351", "ts"),
        ("select 1 from $F where $W > ts", {}, "PZ0351", "shop.orders"),
        # Only the first fault of a dataset is told.
        ("select 1 from $F where bonus < $W", {"sync": SyncConfig("auto")}, "PZ0315", "auto"),
    ],
)
def test_one_verdict_a_dataset(text: str, options: dict[str, object], code: str, named: str) -> None:
    made = inferred(text, **options)  # type: ignore[arg-type]
    assert refused(made) == [code]
    assert named in made.problems.errors[0].message


def test_without_a_contract_any_column_is_a_cursor() -> None:
    made = inferred("select 1 from $F where Bonus > $W", columns=None)
    assert (made.incrementals["shop.orders"].cursor, made.incrementals["shop.orders"].type) == ("Bonus", None)


def test_the_contract_spells_the_cursor() -> None:
    made = inferred("select 1 from $F where TS > $W", columns={"Ts": "timestamptz"})
    assert (made.incrementals["shop.orders"].cursor, made.incrementals["shop.orders"].type) == ("Ts", "timestamptz")


def test_the_guard_leaves_all_other_text_as_it_was() -> None:
    text = "select '日本', /* ts > 1 */ o.ts from $F o -- é\n where -- ü\n (o.ts)> -- floor\n $W -- end\n and o.x = 'ö'"
    text = text.replace("$F", F)
    guarded = "($W IS NULL OR (o.ts)> -- floor\n $W)"
    made = inferred(text, columns=None)
    assert made.sql == text.replace("(o.ts)> -- floor\n $W", guarded).replace("$W", W)


def rows(sql: str) -> list[object]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("create schema staging")
        connection.execute(
            f"create table {F} as select * from (values (timestamp '2025-12-01'), (timestamp '2026-01-03'), "
            "(timestamp '2026-05-01'), (null)) t(ts)"
        )
        return [row[0].month if row[0] else None for row in connection.execute(sql).fetchall()]


def run(text: str, value: str | None, *, full_refresh: bool = False) -> list[object]:
    made = inferred(text, columns=None)
    assert not made.problems.errors
    return rows(substitute(made.sql, {"shop.orders": value}, {"shop.orders": "timestamp"}, full_refresh=full_refresh))


def test_a_first_run_passes_all_rows_through_a_bare_floor() -> None:
    for text in ("ts > $W", "ts >= $W - interval 2 hour", "ts >= date_trunc('day', $W)"):
        assert run(f"select ts from $F where {text}", None) == [12, 1, 5, None]


def test_a_stored_watermark_cuts() -> None:
    assert run("select ts from $F where ts > $W", "2026-01-03T00:00:00.000000") == [5]
    assert run("select ts from $F where ts >= $W - interval 60 day", "2026-01-03T00:00:00.000000") == [12, 1, 5]


def test_full_refresh_makes_every_guard_true() -> None:
    text = (
        "select ts from $F where ts > coalesce($W, timestamp '2026-01-01') "
        "and ts <= least(coalesce($W, timestamp '2026-01-01') + interval 7 day, timestamp '2026-06-01')"
    )
    assert run(text, None) == [1]
    assert run(text, "2026-04-30T00:00:00.000000") == [5]
    assert run(text, "2026-04-30T00:00:00.000000", full_refresh=True) == [12, 1, 5, None]


@pytest.mark.parametrize(
    ("value", "type", "made"),
    [
        (None, None, "NULL"),
        (None, "decimal", "CAST(NULL AS DECIMAL(38,9))"),
        (None, "TIMESTAMP WITH TIME ZONE", "CAST(NULL AS TIMESTAMP WITH TIME ZONE)"),
        (None, "x); drop table t; --", "NULL"),
        ("-5", "decimal", "(-5)"),
        ("10.50", "decimal(10,2)", "10.50"),
        ("9007199254740993", "bigint", "CAST('9007199254740993' AS BIGINT)"),
        ("it's", None, "'it''s'"),
        ("2026-01-01", "date", "CAST('2026-01-01' AS DATE)"),
    ],
)
def test_literals_are_typed(value: str | None, type: str | None, made: str) -> None:
    assert literal(value, type) == made


def test_a_literal_keeps_microseconds_and_instants() -> None:
    sql = "select " + literal("2026-03-10T08:30:00.123456", "timestamp")
    with duckdb.connect(":memory:") as connection:
        assert connection.execute(sql).fetchall() == [(datetime.datetime(2026, 3, 10, 8, 30, 0, 123456),)]


@pytest.mark.parametrize("levels", [120, 300, 600])
def test_a_query_nested_too_deeply_to_be_read_is_one_fault(levels: int) -> None:
    made = inferred("select * from (" * levels + "select * from $F where ts > $W" + ")" * levels)
    assert refused(made) == ["PZ0224"]
