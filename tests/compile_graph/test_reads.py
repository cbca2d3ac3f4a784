# ruff: noqa: E501 - one case a line
from __future__ import annotations

import pytest

from pz_core.compile.cursors import canonical_cursor, canonical_width, later

READ = "{{ source('shop','orders') }}"


def shop(read: str) -> str:
    return f"shop: {{connector: pg, entities: {{orders: {{read: {{{read}}}}}}}}}\nmart: {{connector: pg}}\n"


def target(options: str = "strategy: 'merge', keys: ['id']") -> dict[str, str]:
    return {"o": f"INSERT INTO {{{{ sink('mart','o', {options}) }}}} select id from {READ}"}


def sync(text: str) -> str:
    return f"sync: {{mode: incremental, {text}}}"


@pytest.mark.parametrize(
    ("read", "codes", "says"),
    [
        ("columns: {ts: timestamp}, " + sync("cursor: ts, max_window: 7d"), ["PZ0213"], ["initial"]),
        ("columns: {ts: timestamp}, " + sync("cursor: ts, until: 2026-06-01"), ["PZ0213"], ["until", "max_window"]),
        (sync("cursor: ts, max_window: 7d, initial: 2026-01-01"), ["PZ0213"], ["'ts'", "columns"]),
        ("columns: {id: bigint}, " + sync("cursor: ts, max_window: 7d, initial: 2026-01-01"), ["PZ0213"], ["ts"]),
        ("columns: {d: date}, " + sync("cursor: d, max_window: 36h, initial: 2026-01-01"), ["PZ0213"], ["36h"]),
        ("columns: {id: bigint}, " + sync("cursor: id, max_window: -5, initial: 0"), ["PZ0213"], ["-5"]),
        ("columns: {id: bigint}, " + sync("cursor: id, max_window: 5, initial: 10, until: 10"), ["PZ0213"], ["until"]),
        ("columns: {ts: timestamp}, " + sync("cursor: ts, max_window: 7d, initial: 2026-01-01 00:00:00"), ["PZ0213"], ["initial"]),
        ("columns: {n: decimal}, " + sync("cursor: n, max_window: 0, initial: 1e3, until: x"), ["PZ0213"] * 3, ["1e3"]),
        ("query: select 1, columns: {ts: date}, " + sync("cursor: ts, max_window: 7d, initial: 2026-01-01"), ["PZ0213"], ["query"]),
        ("columns: {id: bigint}, " + sync("cursor: ts"), ["PZ0212"], ["shop.orders", "'ts'"]),
        ("columns: {ts: varchar}, " + sync("cursor: ts"), ["PZ0212"], ["varchar", "timestamptz"]),
        ("path: 'e/{yyyy}/{MM}/*.csv', columns: {ts: timestamp}", ["PZ0217"], ["shop.orders"]),
        ("path: 'e/{yyyy}/{MM}/*.csv', columns: {ts: bigint}, " + sync("cursor: ts"), ["PZ0217"], []),
        ("path: 'e/{yyyy}/*.csv', columns: {ts: timestamp}, " + sync("cursor: ts"), ["PZ0221"], []),
        ("path: 'e/{yyyy}/{dd}/*', columns: {ts: date}, " + sync("cursor: ts, max_window: 1d, initial: 2026-01-01"), ["PZ0218"], ["{dd}"]),
        ("path: 'e/{MM}/{dd}/*', columns: {ts: date}, " + sync("cursor: ts, max_window: 1d, initial: 2026-01-01"), ["PZ0218"], ["{MM}"]),
        ("path: 'e/{YYYY}/*', columns: {ts: date}, " + sync("cursor: ts, max_window: 1d, initial: 2026-01-01"), ["PZ0218"], ["{YYYY}"]),
        ("files_per_partition: 0", ["PZ0222"], ["shop.orders", "0"]),
        ("files_per_partition: true", ["PZ0222"], []),
        ("max_pages: 3, cursor_order: desc, columns: {ts: timestamp}, " + sync("cursor: ts"), ["PZ0229"], ["shop.orders"]),
    ],
)  # fmt: skip
def test_broken_reads_are_refused(lab, read, codes, says):
    errors = lab.write(target(), connections=shop(read)).errors()
    assert [e.code for e in errors] == codes
    told = " ".join(f"{e.message} {e.hint}" for e in errors)
    assert all(word in told for word in says)
    assert all(e.where.file == "connections.yml" and e.where.line for e in errors)


@pytest.mark.parametrize(
    ("read", "stored"),
    [
        (
            "columns: {ts: timestamp}, " + sync("cursor: ts, max_window: 7d, initial: 2026-01-01, until: '2026-06-01T00:00:00Z'"),
            ("7d", "2026-01-01T00:00:00.000000", "2026-06-01T00:00:00.000000"),
        ),
        ("columns: {d: date}, " + sync("cursor: d, max_window: 48h, initial: 2026-01-01"), ("48h", "2026-01-01", None)),
        ("columns: {id: int}, " + sync("cursor: id, max_window: 007, initial: +5"), ("7", "5", None)),
        ("columns: {n: 'decimal(10,2)'}, " + sync("cursor: n, max_window: 5, initial: '12.50'"), ("5", "12.50", None)),
        (
            "query: {select: all}, cursor: ts, cursor_type: timestamp, " + sync("cursor: ts, max_window: 1h, initial: 2026-01-01"),
            ("1h", "2026-01-01T00:00:00.000000", None),
        ),
        (
            "path: 'e/{yyyy}/{MM}/{dd}/{key}/*.csv', columns: {ts: timestamptz}, "
            + sync("cursor: ts, max_window: 1d, initial: 2026-01-01"),
            ("1d", "2026-01-01T00:00:00.000000", None),
        ),
        ("files_per_partition: '4', columns: {id: bigint}, " + sync("cursor: id"), (None, None, None)),
    ],
)  # fmt: skip
def test_sound_reads_are_kept_in_canonical_form(lab, read, stored):
    node = lab.write(target(), connections=shop(read)).graph().named("src_shop__orders")
    assert node.sync == node.incremental.sync
    assert (node.sync.max_window, node.sync.initial, node.sync.until) == stored


def test_the_spelling_of_a_window_is_no_part_of_the_id(make):
    one = "columns: {ts: timestamp}, " + sync("cursor: ts, max_window: 7d, initial: 2026-01-01")
    two = one.replace("2026-01-01", "'2026-01-01T00:00:00Z'")
    three = one.replace("7d", "8d")
    ids = [make(target(), connections=shop(read)).graph().named("src_shop__orders").id for read in (one, two, three)]
    assert ids[0] == ids[1] != ids[2]


def test_an_incremental_read_without_a_contract_is_noted(lab):
    graph = lab.write(target(), connections=shop(sync("cursor: ts"))).graph()
    assert any(n.severity == "note" and "shop.orders" in n.message and "'ts'" in n.message for n in graph.notices)


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ("path: 'o/{yyyy}/{MM}/'", ["PZ0219"]),
        ("path: 'o/{yyyy}/{MM}/', partition_by: ['a','b']", ["PZ0219"]),
        ("partition_by: 3", ["PZ0219"]),
        ("partition_by: []", ["PZ0219"]),
        ("path: 'o/{yyyy}/{dd}/', partition_by: 'd'", ["PZ0218"]),
        ("path: 'o/{dd}/'", ["PZ0219", "PZ0218"]),
        ("files_per_partition: '-1'", ["PZ0222"]),
    ],
)
def test_broken_outputs_are_refused(lab, options, codes):
    errors = (
        lab.write(target(f"strategy: 'replace', {options}"))
        .write(target(f"strategy: 'replace', {options}"), connections=shop(""))
        .errors()
    )
    assert [e.code for e in errors] == codes
    assert all("mart.o" in e.message and e.where.file == "pipelines/o.sql" for e in errors)


@pytest.mark.parametrize("options", ["path: 'o/', partition_by: 'a'", "path: '/c/{key}'", "partition_by: ['a', 'b']"])
def test_sound_outputs(lab, options):
    assert lab.write(target(f"strategy: 'replace', {options}"), connections=shop("")).graph().named("mart.o").options


@pytest.mark.parametrize(
    ("word", "text", "made"),
    [
        ("bigint", "007", "7"),
        ("bigint", "-0", "0"),
        ("bigint", "-12345678901234567890123", "-12345678901234567890123"),
        ("bigint", "1_000", None),
        ("bigint", " 1", None),
        ("bigint", "1.0", None),
        ("bigint", "\u0661", None),
        ("decimal", "+012.50", "12.50"),
        ("decimal", "-0.00", "0.00"),
        ("decimal", ".5", None),
        ("decimal", "1,000", None),
        ("date", "2026-02-29", None),
        ("date", "2026-1-1", None),
        ("date", "2026-01-01T00:00:00", None),
        ("timestamp", "2026-01-01T08:30:00.5Z", "2026-01-01T08:30:00.500000"),
        ("timestamp", "2026-01-01T08:30:00.1234567", None),
        ("timestamp", "2026-01-01Z", None),
        ("timestamp", "2026-01-01T08:30:00+02:00", None),
        ("timestamp", "2026-01-01T24:30:00", None),
        ("timestamp", "2026-01-01 08:30:00", None),
        ("varchar", "x", None),
    ],
)
def test_canonical_cursor_values(word, text, made):
    assert canonical_cursor(word, text) == made


def test_windows_and_comparison():
    assert canonical_width("int", "0") is None and canonical_width("int", "7d") is None
    assert canonical_width("timestamp", "500") is None and canonical_width("timestamp", "0s") is None
    assert canonical_width("date", "1d") == "1d" and canonical_width("decimal", "1.5") is None
    assert later("bigint", "10", "9") and not later("decimal", "1.50", "1.5")
