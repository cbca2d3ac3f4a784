"""An upsert as a program has it: two statements that anybody can run, and what they mean behind them."""

from __future__ import annotations

import copy

import duckdb

from pz_core.contract import LoadRequest, Upsert, UpsertStatement
from pz_core.strategies.merge import Merge
from pz_core.values import Column


def test_its_statements_update_and_then_insert() -> None:
    rows = "(SELECT * FROM (VALUES (1, 10, 'new'), (2, 10, 'also')) AS v(a, b, c))"
    upsert = Upsert('"t"', ("c", "a", "b"), ("b", "a"), rows)
    update, insert = upsert.statements()
    with duckdb.connect() as db:
        db.execute("CREATE TABLE t (a INT, b INT, c VARCHAR)")
        db.execute("INSERT INTO t VALUES (1, 10, 'old'), (1, 20, 'stays')")
        assert db.execute(update).fetchall() == [(1,)] and db.execute(insert).fetchall() == [(1,)]
        assert db.execute("FROM t ORDER BY ALL").fetchall() == [(1, 10, "new"), (1, 20, "stays"), (2, 10, "also")]


def test_with_keys_alone_there_is_nothing_to_update() -> None:
    (insert,) = Upsert('"t"', ("k",), ("k",), '(SELECT "k" FROM "s")').statements()
    assert insert.startswith("INSERT")


def test_a_statement_is_its_text_and_knows_the_whole() -> None:
    upsert = Upsert('"t"', ("k", "v"), ("k",), '(SELECT "k", "v" FROM "s")')
    for sql in upsert.statements():
        assert isinstance(sql, str) and sql == str(sql) and sql.upsert is upsert
        copied = copy.deepcopy(sql)
        assert copied == sql and copied.upsert == upsert


def test_a_merge_says_what_it_means() -> None:
    columns = (Column("Id", "BIGINT"), Column("v", "VARCHAR"))
    request = LoadRequest("m.o", '"s"', '"m"."o"', columns, ("id",), gone="gone", on_delete="delete")
    update, insert, delete = Merge().program(request)
    assert isinstance(update, UpsertStatement) and isinstance(insert, UpsertStatement) and type(delete) is str
    assert update.upsert == insert.upsert and (update, insert) == update.upsert.statements()
    assert (update.upsert.target, update.upsert.columns, update.upsert.keys) == ('"m"."o"', ("Id", "v"), ("Id",))


def test_a_merge_says_where_no_key_repeats() -> None:
    def distinct(tripped: frozenset[str] | None, gone: str | None = None) -> str | None:
        columns = (Column("k", "BIGINT"), Column("v", "VARCHAR"))
        request = LoadRequest("m.o", '"s"', '"t"', columns, ("k",), gone=gone, on_delete="delete", tripped=tripped)
        first = Merge().program(request)[0]
        assert isinstance(first, UpsertStatement) and "row_number" in first  # whatever a session makes of it
        return first.upsert.distinct

    assert distinct(None) is None  # nobody has asked
    assert distinct(frozenset({"PZ0522"})) is None
    assert distinct(frozenset()) == '(SELECT "k", "v" FROM "s")'
    assert distinct(frozenset(), "gone") == '(SELECT "k", "v" FROM "s" WHERE NOT "gone")'
