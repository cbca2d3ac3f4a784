"""Programs in another dialect: what is said anew, and what is handed on as it is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pz_core.contract.strategy import LoadRequest, Upsert, UpsertStatement
from pz_core.engines.duckdb.dialect import translate
from pz_core.errors import PzError
from pz_core.strategies.append import Append
from pz_core.strategies.merge import Merge
from pz_core.strategies.replace import Replace
from pz_core.testkit import corpus
from pz_core.values import Column, quote_path

NAMES = [*corpus.COLUMN_NAMES, 'a" = "b', "select", "x) AS (y", "NOT", "it's", '"']


def asked(name: str = "v", **more: Any) -> LoadRequest:
    made: dict[str, Any] = {
        "output": "m.o",
        "staged": "pg_temp.pz_staged",
        "target": quote_path(f"s {name}", name),
        "columns": (Column(f"{name} key", "BIGINT"), Column("k2", "DATE"), Column(name, "VARCHAR")),
        "keys": (f"{name} key", "k2"),
        "order": '"pz_order"',
        "started_at": "2026-01-01T00:00:00.000000Z",
    }
    return LoadRequest(**{**made, **more})


def variants(name: str) -> list[LoadRequest]:
    stamped = (Column(f"{name} key", "BIGINT"), Column("_pz_deleted_at", "TIMESTAMP WITH TIME ZONE"))
    one = {"keys": (f"{name} key",)}
    return [
        asked(name), asked(name, **one), asked(name, **one, columns=stamped[:1]),
        asked(name, gone=f"{name} gone", on_delete="delete"), asked(name, **one, gone="gone", on_delete="delete"),
        asked(name, **one, columns=stamped, gone="gone", on_delete="soft"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_merge_is_handed_on_and_reads_the_same_in_postgres(name: str) -> None:
    import sqlglot

    for request in variants(name):
        program = Merge().program(request)
        made = translate(program, "postgres")
        assert len(made) == len(program) and all(a is b for a, b in zip(made, program, strict=True))
        for sql in program:
            here = sqlglot.transpile(sql, read="duckdb", write="postgres")
            assert here == sqlglot.transpile(sql, read="postgres", write="postgres")


def test_each_statement_is_judged_by_itself() -> None:
    table = 'CREATE TABLE "a" ("x" HUGEINT)'
    program = (table, *Merge().program(asked()), 'ALTER TABLE "a" ADD COLUMN "y" BLOB')
    made = translate(program, "postgres")
    assert made[0] == 'CREATE TABLE "a" ("x" DECIMAL(39, 0))' and made[-1] == 'ALTER TABLE "a" ADD COLUMN "y" BYTEA'
    assert [type(sql) for sql in made] == [str, UpsertStatement, UpsertStatement, str]


@pytest.mark.parametrize(
    "rows",
    [
        '(SELECT "k", "v" FROM "s" QUALIFY row_number() OVER (PARTITION BY "k") = 1)',
        '(SELECT "k", "v"::HUGEINT AS "v" FROM "s")',
        '(SELECT "k", "v" FROM (SELECT "k", "v", row_number() OVER (PARTITION BY "k" ORDER BY "o" DESC) AS "r" '
        'FROM "s") AS "x" WHERE "r" = 1)',
    ],
)
def test_rows_that_read_otherwise_are_said_anew(rows: str) -> None:
    upsert = Upsert('"t"', ("k", "v"), ("k",), rows)
    for sql in translate(upsert.statements(), "postgres"):
        assert type(sql) is str and "QUALIFY" not in sql and "HUGEINT" not in sql
        assert "ORDER" not in sql or "NULLS LAST" in sql


def test_other_dialects_get_a_text_of_their_own() -> None:
    assert all("`v`" in sql and type(sql) is str for sql in translate(Merge().program(asked()), "bigquery"))
    with pytest.raises(PzError, match="PZ0324"):
        translate(('SELECT "a" FROM',), "postgres")


def test_loads_into_postgres_load_no_parser() -> None:
    code = (
        "import sys\nfrom test_dialect import *\n"
        "for strategy in (Merge(), Append(), Replace()):\n"
        "    for request in variants('a'):\n"
        "        translate(strategy.program(request), 'postgres')\n"
        "assert 'sqlglot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=__file__.rpartition("/")[0], timeout=60)


def test_the_strategies_of_the_core_are_tried() -> None:
    for strategy in (Append(), Replace()):
        program = strategy.program(asked())
        assert all(a is b for a, b in zip(translate(program, "postgres"), program, strict=True))
