"""Cursor types: what bounds evaluate to, what lands, and what is refused by name."""

from __future__ import annotations

import pytest

from pz_core.compile.model import Incremental, WatermarkBound
from pz_core.contract.capabilities import Capabilities
from pz_core.errors import PzError
from pz_core.project.model import SyncConfig
from pz_core.run.bounds import evaluate
from pz_core.run.slices import Bound, Slice, sql_slice, yaml_slice

W = "'__pz_watermark__shop__orders__'"


def ends(stored, kind, *bounds):
    made = evaluate(
        "shop.orders", Incremental("c", None, None, tuple(WatermarkBound(op, e) for op, e in bounds)), stored, kind
    )
    return made.floor, made.ceiling


T = "2026-03-10T08:30:00.000000"


@pytest.mark.parametrize(
    ("stored", "kind", "op", "expression", "value"),
    [
        (T, "timestamp", ">", W, T),
        (T, "timestamp", ">=", f"{W} - interval 2 hour", "2026-03-10T06:30:00.000000"),
        (T, "timestamp", ">=", f"date_trunc('day', {W})", "2026-03-10T00:00:00.000000"),
        (T, "timestamptz", ">=", f"{W} - interval 1 day", "2026-03-09T08:30:00.000000"),
        ("2026-02-01", "date", ">=", f"{W} - interval 3 day", "2026-01-29"),
        ("1500", "bigint", ">", f"{W} - 100", "1400"),
        ("2147483647", "int", ">", f"{W} + 1", "2147483648"),
        ("-5", "int", ">", f"{W} - 1", "-6"),
        ("8", "bigint", ">", f"{W} / 2", "4"),
        ("7", "bigint", ">", f"{W} // 2", "3"),
        ("9007199254740993", "bigint", ">", W, "9007199254740993"),
        ("10.50", "decimal", ">", f"{W} + 5", "15.50"),
        ("15.50", "decimal", ">", f"{W} / 2", "7.750000000"),
    ],
)
def test_a_bound_is_evaluated_and_brought_back_to_the_cursor_type(stored, kind, op, expression, value):
    assert ends(stored, kind, (op, expression)) == (Bound(value, op == ">="), None)


def test_a_fraction_is_no_bound_of_a_whole_number():
    with pytest.raises(PzError) as caught:
        ends("7", "bigint", (">", f"{W} / 2"))
    assert caught.value.code == "PZ0505" and "fraction" in caught.value.message and "3.5" not in caught.value.message


def test_an_expression_that_cannot_be_evaluated_says_why():
    with pytest.raises(PzError) as caught:
        ends("9223372036854775807", "bigint", (">", f"{W} + 1"))
    assert caught.value.code == "PZ0501" and "shop.orders" in caught.value.message


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (">", Bound("2026-01-30", False)),
        (">=", Bound("2026-01-30", False)),
        ("<", Bound("2026-01-30", True)),
        ("<=", Bound("2026-01-30", True)),
    ],
)
def test_an_instant_within_a_day_cuts_dates_between_the_days(op, expected):
    floor, ceiling = ends("2026-02-01", "date", (op, f"{W} - interval 36 hour"))
    assert (floor or ceiling) == expected


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (W, None),
        (f"{W} - interval 2 hour", None),
        (f"date_trunc('day', {W})", None),
        (f"{W} // 2", None),
        (f"coalesce({W}, TIMESTAMP '2026-01-01')", "2026-01-01T00:00:00.000000"),
        (f"coalesce({W} - interval 2 hour, TIMESTAMP '2026-01-01')", "2026-01-01T00:00:00.000000"),
        (f"coalesce({W}, '2026-01-01')", "2026-01-01T00:00:00.000000"),
        (f"coalesce({W}, 0)", "0"),
        (f"coalesce({W}, DATE '2026-01-01')", "2026-01-01"),
    ],
)
def test_on_a_first_run_without_a_contract_the_expression_says_the_type(expression, value):
    floor, _ = ends(None, None, (">", expression))
    assert (None if floor is None else floor.value) == value


def test_loosest_floor_tightest_ceiling_and_ties():
    low, high = Bound("9", False), Bound("10", False)  # as text, 9 would lie above 10
    assert sql_slice("c", "bigint", [high, low], [high, low]).floor == low
    assert sql_slice("c", "bigint", [low], [Bound("11", True), high]).ceiling == high
    assert sql_slice("c", "bigint", [low, Bound("9", True)], []).floor == Bound("9", True)
    assert sql_slice("c", "bigint", [], [Bound("9", True), low]).ceiling == low


def test_one_point_is_a_slice_only_if_both_ends_belong_to_it():
    point, open_end = Bound("5", True), Bound("5", False)
    assert not sql_slice("c", "bigint", [point], [point]).caught_up
    assert sql_slice("c", "bigint", [open_end], [point]).caught_up
    assert sql_slice("c", "bigint", [Bound("6", True)], [point]).caught_up


@pytest.mark.parametrize(("inclusive", "after"), [(True, "9"), (False, None)])
def test_an_empty_slice_moves_on_only_to_an_end_that_belongs_to_it(inclusive, after):
    assert Slice("c", "bigint", Bound("1", False), Bound("9", inclusive)).high_water(None) == after


# --- what lands ------------------------------------------------------------------------------------------------------


def parquet(lab, select):
    lab.write("in/.keep", "")
    lab.ask(f"COPY ({select}) TO '{lab.root}/in/orders.parquet' (FORMAT parquet)")
    lab.write(
        "connections.yml",
        "shop: {connector: localfiles, root: in}\nlake: {connector: localfiles, root: out}\n",
    )
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('lake', 'o', duplicates: 'accept', format: 'parquet') }} select * from "
        "{{ source('shop', 'orders', format: 'parquet') }} where c > {{ watermark('shop', 'orders') }}",
    )


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("7::integer", "int", "7"),
        ("9007199254740993::bigint", "bigint", "9007199254740993"),
        ("12.340::decimal(10,3)", "decimal", "12.340"),
        ("date '0999-12-31'", "date", "0999-12-31"),
        ("timestamp '1969-12-31 23:59:59.999999'", "timestamp", "1969-12-31T23:59:59.999999"),
        ("timestamptz '2026-01-01 00:00:00.000001+02:00'", "timestamptz", "2025-12-31T22:00:00.000001"),
    ],
)
def test_the_watermark_is_the_landed_maximum_to_the_last_digit(lab, value, kind, text):
    parquet(lab, f"select {value} as c")
    assert lab.run().exit_code == 0
    assert lab.node("src_shop__orders")["watermark"] == {"cursor": "c", "type": kind, "value": text}
    lab.run()
    assert lab.staged(column="CAST(c AS VARCHAR)") == []  # the stored text bounds out exactly the row that it came from


@pytest.mark.parametrize(
    "value",
    [
        "'x'",
        "1.5::double",
        "1::smallint",
        "1::hugeint",
        "true",
        "timestamp_ns '2026-01-01 00:00:00.000000001'",
        "uuid()",
    ],
)
def test_other_types_fail_the_load_by_name(lab, value):
    parquet(lab, f"select {value} as c")
    (error,) = lab.run().errors
    assert error.code == "PZ0505" and "cursor 'c'" in error.message and "shop.orders" in error.message
    assert lab.stored() is None


@pytest.mark.parametrize("value", ["timestamp 'infinity'", "date 'infinity'"])
def test_a_cursor_that_nothing_can_lie_above_fails_the_load(lab, value):
    parquet(lab, f"select {value} as c")
    (error,) = lab.run().errors
    assert error.code == "PZ0505"


def test_a_cursor_that_is_missing_is_named(lab):
    parquet(lab, "select 1 as c")
    lab.write("pipelines/p.sql", "select 1 as x")
    lab.ask(f"COPY (select 1 as other) TO '{lab.root}/in/orders.parquet' (FORMAT parquet)")
    errors = lab.run().errors
    assert any("'c'" in e.message for e in errors)


@pytest.mark.parametrize(("stored", "kind"), [("2026-01-01", "date"), ("7", "bigint"), ("7.5", "decimal")])
def test_a_contractless_column_that_changed_its_type_is_refused(lab, stored, kind):
    parquet(lab, "select timestamp '2026-01-02' as c")
    lab.store(stored, kind, "c")
    (error,) = lab.run().errors
    assert error.code == "PZ0505" and kind in error.message and "TIMESTAMP" in error.message
    lab.run(full_refresh=True)
    assert lab.stored() == "2026-01-02T00:00:00.000000"


def test_where_only_the_landed_type_says_the_bound_the_right_slice_lands(lab):
    # A first run, no contract: the guess reads days as instants, the column holds days.
    parquet(lab, "select unnest([date '2026-01-01', date '2026-01-05', date '2026-02-01']) as c")
    w = "coalesce({{ watermark('shop', 'orders') }}, '2026-01-01')"
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('lake', 'o', duplicates: 'accept', format: 'parquet') }} select * from "
        f"{{{{ source('shop', 'orders', format: 'parquet') }}}} where c > {w} and c <= {w} + interval 7 day",
    )
    assert lab.run().exit_code == 0
    assert lab.staged(column="CAST(c AS VARCHAR)") == ["2026-01-05"]
    assert lab.stored() == "2026-01-05"


# --- connectors that can do less ------------------------------------------------------------------------------------


def test_a_connector_without_inclusive_floors_gets_none_and_the_slice_is_cut_after_landing(lab, monkeypatch):
    from pz_localfiles.connector import LocalFiles as Connector

    seen = []
    real = Connector.open_source

    def watched(self):
        source = real(self)
        resolve = source.resolve_scan
        source.resolve_scan = lambda spec: (seen.append(spec.bounds), resolve(spec))[1]
        return source

    parquet(lab, "select unnest(range(5)) as c")
    sql = (lab.root / "pipelines/o.sql").read_text()
    lab.write("pipelines/o.sql", sql.replace("c > {{", "c >= {{"))
    lab.store("3", "bigint", "c")
    monkeypatch.setattr(
        Connector,
        "capabilities",
        Capabilities(
            reads=True,
            native_read=True,
            universal_read=True,
            native_write=True,
            load_modes=Connector.capabilities.load_modes,
            schema_policies=Connector.capabilities.schema_policies,
        ),
    )
    monkeypatch.setattr(Connector, "open_source", watched)
    result = lab.run()
    assert result.exit_code == 0, result.errors
    assert seen[-1].lower is None
    assert lab.staged(column="c") == [3, 4]
    assert "takes no floor with >=" in lab.notes(result)


def test_an_engine_that_does_not_tell_the_cursor_cannot_read_incrementally(lab, monkeypatch):
    monkeypatch.setattr("pz_core.engines.duckdb.land.find_cursor", lambda *_: None)
    parquet(lab, "select 1 as c")
    (error,) = lab.run().errors
    assert error.code == "PZ0501" and "incrementally" in error.message
    assert lab.stored() is None


def test_a_year_in_windows_of_a_week_takes_53_slices_without_an_empty_one():
    sync = SyncConfig("incremental", "c", "7d", "2025-01-01T00:00:00.000000", "2026-01-01T00:00:00.000000")
    stored, slices = None, 0
    while True:
        made = yaml_slice(sync, "timestamp", stored, "2026-06-01T00:00:00.000000Z")
        assert not made.caught_up
        slices, stored = slices + 1, made.high_water(None)
        if made.at_end:
            break
    assert (slices, stored) == (53, "2026-01-01T00:00:00.000000")
    assert yaml_slice(sync, "timestamp", stored, "2026-06-01T00:00:00.000000Z").caught_up


def test_a_window_that_would_leave_the_calendar_ends_with_it():
    sync = SyncConfig("incremental", "c", "365d", "9999-06-01")
    assert yaml_slice(sync, "date", None, "2026-06-01T00:00:00.000000Z").ceiling == Bound("9999-12-31", True)


def test_an_end_that_was_brought_forward_is_caught_up_and_moves_nothing():
    sync = SyncConfig("incremental", "c", "10", "0", "20")
    made = yaml_slice(sync, "bigint", "25", "2026-06-01T00:00:00.000000Z")
    assert made.caught_up and made.high_water("25") is None
