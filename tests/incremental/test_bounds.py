"""What a run reads, lands, lets pass and stores, for bounds in SQL and windows in YAML (config-compile.md 7.8)."""

from __future__ import annotations

import pytest

from pz_core.errors import PzErrors

ROWS = "id,ts\n1,2025-12-01 00:00:00\n2,2026-01-03 00:00:00\n3,2026-01-08 00:00:00\n4,2026-05-01 00:00:00\n"
W = "{{ watermark('shop', 'orders') }}"
START = "TIMESTAMP '2026-01-01'"
C = f"coalesce({W}, {START})"
TRIO = f"ts > {C} and ts <= least({C} + interval 7 day, TIMESTAMP '2026-01-20')"
BARE = f"ts > {W}"
LOOKBACK = f"ts >= {W} - interval 2 hour"
MAY = "2026-05-01T00:00:00.000000"


def day(n: int, month: int = 1, hour: int = 0) -> str:
    return f"2026-{month:02d}-{n:02d}T{hour:02d}:00:00.000000"


def project(lab, where: str, contract: bool = True, rows: str = ROWS) -> None:
    lab.connections("        columns: {id: bigint, ts: timestamp}" if contract else "")
    lab.write("in/orders.csv", rows)
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('mart', 'o', strategy: 'merge', keys: ['id']) }} "
        f"select id, ts from {{{{ source('shop', 'orders') }}}} where {where}",
    )


TABLE = [
    # id, where, stored, landed (None: not looked at), out, next
    ("B01", BARE, None, [1, 2, 3, 4], [1, 2, 3, 4], MAY),
    ("B02", BARE, day(3), [3, 4], [3, 4], MAY),
    ("B03", LOOKBACK, day(8, hour=1), [3, 4], [3, 4], MAY),
    ("B04", LOOKBACK, None, [1, 2, 3, 4], [1, 2, 3, 4], MAY),
    ("B05", TRIO, None, [2, 3], [2, 3], day(8)),
    ("B06", TRIO, day(8), [], [], day(15)),
    ("B07", TRIO, day(15), [], [], day(20)),
    ("B08", TRIO, day(20), [], [], day(20)),
    ("B10", f"ts > {W} and ts >= {W} - interval 2 day", day(8), [3, 4], [4], MAY),
    (
        "B11",
        f"ts > {W} and ts <= {W} + interval 7 day and ts < {W} + interval 7 day",
        day(1),
        [2],
        [2],
        day(3),
    ),
    ("B12", f"ts > {W} and ts < {W} + interval 1 day", day(3), [], [], day(3)),
    ("B13", f"ts > {W} and ts <= {W} + interval 7 day", None, [1, 2, 3, 4], [1, 2, 3, 4], MAY),
]


@pytest.mark.parametrize("contract", [True, False], ids=["contract", "inferred"])
@pytest.mark.parametrize(
    ("where", "stored", "landed", "out", "after"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
def test_bounds_in_sql(lab, where, stored, landed, out, after, contract):
    project(lab, where, contract)
    if stored is not None:
        lab.store(stored)
    result = lab.run()
    assert result.exit_code == 0, result.errors
    assert lab.staged() == landed
    assert lab.staged("o") == out
    assert lab.stored() == after


def test_full_refresh_reads_all_and_lets_all_pass(lab):  # B09
    project(lab, TRIO, contract=False)
    lab.store(day(15))
    assert lab.run(full_refresh=True).exit_code == 0
    assert lab.staged("o") == [1, 2, 3, 4]
    assert lab.stored() == MAY


def test_full_refresh_may_move_the_watermark_back_and_nothing_else_may(lab):
    project(lab, LOOKBACK)
    lab.store(day(1, month=5, hour=1))  # the highest row lies below it
    lab.run()
    assert lab.stored() == day(1, month=5, hour=1)
    lab.run(full_refresh=True)
    assert lab.stored() == MAY


@pytest.mark.parametrize("stored", [("2026-01-03", "date"), ("7", "bigint")])
def test_a_stored_type_other_than_the_contract_fails_the_node(lab, stored):  # B15
    project(lab, BARE)
    lab.store(stored[0], stored[1])
    result = lab.run()
    assert [e.code for e in result.errors] == ["PZ0505"]
    assert lab.stored() == stored[0]
    assert lab.node("o")["status"] == "skipped"


def test_a_stored_watermark_of_another_column_fails_the_node(lab):
    project(lab, BARE)
    lab.store(day(3), cursor="other")
    (error,) = lab.run().errors
    assert error.code == "PZ0505" and "'other'" in error.message and "'ts'" in error.message


# --- windows in YAML ------------------------------------------------------------------------------------------------


def window(lab, kind: str, rows: str, **sync: str) -> None:
    words = "".join(f", {key}: {value!r}" for key, value in sync.items())
    lab.connections(f"        columns: {{c: '{kind}'}}\n        sync: {{mode: incremental, cursor: c{words}}}")
    lab.write("in/orders.csv", "c\n" + rows)
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('lake', 'o', duplicates: 'accept', format: 'parquet') }} "
        "select c from {{ source('shop', 'orders') }}",
    )


def passes(lab, number: int) -> list:
    made = []
    for _ in range(number):
        result = lab.run()
        assert result.exit_code == 0, result.errors
        made.append((lab.staged(column="CAST(c AS VARCHAR)"), lab.stored()))
    return made


def test_a_window_never_reads_its_initial_and_stops_at_until(lab):  # B16
    window(lab, "bigint", "0\n1\n2\n3\n4\n", initial="0", max_window="2", until="3")
    assert passes(lab, 3) == [(["1", "2"], "2"), (["3"], "3"), ([], "3")]
    assert lab.node("src_shop__orders")["caughtUp"] is True
    assert "watermark" not in lab.node("src_shop__orders")


def test_without_an_end_empty_windows_move_on(lab):  # B17
    window(lab, "bigint", "", initial="100", max_window="50")
    assert [after for _, after in passes(lab, 3)] == ["150", "200", "250"]
    assert "caughtUp" not in lab.node("src_shop__orders")


WORKED = [
    ("bigint", {"initial": "0", "max_window": "10000", "until": "25000"}, None, "10000"),
    ("bigint", {"initial": "0", "max_window": "10000", "until": "25000"}, "9990", "19990"),
    ("bigint", {"initial": "0", "max_window": "10000", "until": "25000"}, "20000", "25000"),
    ("bigint", {"initial": "0", "max_window": "10000", "until": "25000"}, "25000", "25000"),
    ("bigint", {"initial": "9223372036854775800", "max_window": "99"}, None, "9223372036854775807"),
    ("timestamp", {"initial": "2026-01-01", "max_window": "36h"}, None, "2026-01-02T12:00:00.000000"),
    (
        "timestamp",
        {"initial": "2026-01-01", "max_window": "7d", "until": "2026-01-05T12:00:00Z"},
        None,
        day(5, hour=12),
    ),
    ("date", {"initial": "2026-02-27", "max_window": "3d"}, None, "2026-03-02"),
    ("decimal", {"initial": "12.50", "max_window": "5", "until": "20"}, "17.50", "20"),
    ("timestamptz", {"initial": "2026-01-01", "max_window": "1d"}, None, day(2)),
]


@pytest.mark.parametrize(("kind", "sync", "stored", "after"), WORKED)
def test_where_an_empty_window_ends(lab, kind, sync, stored, after):  # config-compile.md 5.7
    window(lab, kind, "", **sync)
    if stored is not None:
        lab.store(stored, kind, "c")
    assert passes(lab, 1) == [([], after)]


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_both_tiers_land_the_same_slices(lab, tier):
    window(lab, "decimal(10,2)", "0.50\n1.00\n2.50\n2.51\n", initial="0.50", max_window="2")
    if tier == "universal":
        lab.write("project.yml", "name: lab\nversion: 1.0.0\nengine: {force_universal: true}\n")
    assert passes(lab, 2) == [(["1.00", "2.50"], "2.50"), (["2.51"], "2.51")]


def test_a_window_reaches_the_end_of_its_type(lab):
    window(lab, "bigint", "9223372036854775806\n9223372036854775807\n", initial="9223372036854775805", max_window="99")
    assert passes(lab, 1) == [(["9223372036854775806", "9223372036854775807"], "9223372036854775807")]
    assert passes(lab, 1) == [([], "9223372036854775807")]


def test_until_now_needs_a_cursor_that_counts_in_time(lab):
    window(lab, "bigint", "1\n", initial="0", max_window="3", until="now")
    with pytest.raises(PzErrors) as caught:
        lab.run()
    assert [e.code for e in caught.value] == ["PZ0213"]


def test_a_window_that_begins_later_than_now_reads_nothing_yet(lab):
    window(lab, "date", "2026-01-01\n2030-01-02\n", initial="2030-01-01", max_window="1d", until="now")
    lab.write("in/orders.csv", "c,x\n2026-01-01,a\n,b\n2030-01-02,c\n")
    assert passes(lab, 2) == [([], None), ([], None)]


def test_until_now_is_the_start_of_the_run_and_not_in_the_window(lab):
    window(
        lab,
        "timestamp",
        "2026-06-01 11:59:59.999999\n2026-06-01 12:00:01\n",
        initial="2026-06-01",
        max_window="7d",
        until="now",
    )
    assert passes(lab, 1) == [(["2026-06-01 11:59:59.999999"], "2026-06-01T11:59:59.999999")]
    assert lab.node("src_shop__orders")["caughtUp"] is True


def test_rows_without_a_cursor_are_loaded_once_and_told(lab):
    window(lab, "bigint", '1\n""\n3\n', initial="0", max_window="2")
    lab.write("in/orders.csv", "c,x\n1,a\n,b\n3,c\n")
    first = lab.run()
    assert lab.staged(column="CAST(c AS VARCHAR)") == ["1", None]
    assert "1 row has no value in cursor 'c'" in lab.notes(first)
    lab.run()
    assert lab.staged(column="CAST(c AS VARCHAR)") == ["3"]


def test_a_yaml_floor_without_a_window_reads_only_what_is_above_it(lab):
    window(lab, "bigint", "1\n2\n")
    lab.run()
    lab.write("in/orders.csv", "c\n1\n2\n3\n")
    lab.run()
    assert (lab.staged(column="c"), lab.stored()) == ([3], "3")
