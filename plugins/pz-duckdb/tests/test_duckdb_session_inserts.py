"""Rows of a large INSERT that follows an empty one in the same transaction, and the ledger's table of a session."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pz_duckdb.connector import DuckDB

from pz_core.contract.connector import ConnectionConfig, WriteSpec
from pz_core.contract.ledger import LedgerSession
from pz_core.values import Column

ROWS = 300_000


def session(project: Path) -> LedgerSession:
    connector = DuckDB(ConnectionConfig("store", "duckdb", {"path": "store.duckdb"}, str(project)))
    made = connector.open_sink().begin(WriteSpec("mart.t"), (Column("id", "BIGINT"),))
    assert isinstance(made, LedgerSession)
    return made


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(range(number), pa.int64())})


def visible(write: LedgerSession) -> int:
    """Rows of the target, seen from within the transaction: where rows are lost, they are lost there first."""
    [part] = list(write.execute(f"SELECT count(*) AS n FROM {write.target}"))
    return int(part.to_pylist()[0]["n"])


def count(project: Path) -> int:
    with duckdb.connect(str(project / "store.duckdb"), read_only=True) as con:
        row = con.execute("SELECT count(*) FROM mart.t").fetchone()
        assert row is not None
        return int(row[0])


def test_an_empty_batch_before_a_large_one_loses_no_row(tmp_path: Path) -> None:
    write = session(tmp_path)
    write.write(batch(0))
    write.write(batch(ROWS))
    write.execute(f"CREATE TABLE {write.target} AS SELECT * FROM {write.staged}")
    assert visible(write) == ROWS
    assert write.commit().rows == ROWS
    assert count(tmp_path) == ROWS


@pytest.mark.parametrize("nothing", ["{staged} WHERE id < 0", "temp.main.nothing"])
def test_a_statement_that_inserts_nothing_before_a_large_one_loses_no_row(tmp_path: Path, nothing: str) -> None:
    write = session(tmp_path)
    write.write(batch(ROWS))
    write.execute("CREATE TEMP TABLE nothing (id BIGINT)")
    write.execute(f"CREATE TABLE {write.target} (id BIGINT)")
    write.execute(f"INSERT INTO {write.target} SELECT * FROM {nothing.format(staged=write.staged)}")
    write.execute(f"INSERT INTO {write.target} SELECT * FROM {write.staged}")
    assert visible(write) == ROWS
    write.commit()
    assert count(tmp_path) == ROWS


def test_rows_that_are_staged_after_a_statement_keep_their_order(tmp_path: Path) -> None:
    write = session(tmp_path)
    write.execute(f"CREATE TABLE {write.target} (id BIGINT)")
    write.execute(f"INSERT INTO {write.target} VALUES (-1)")
    write.write(batch(ROWS))
    first = f"(SELECT min({write.order}) FROM {write.staged})"
    [wrong] = list(write.execute(f"SELECT count(*) AS n FROM {write.staged} WHERE id <> {write.order} - {first}"))
    assert wrong.to_pylist() == [{"n": 0}]
    write.abort()


def test_the_ledger_stands_in_the_schema_of_the_target(tmp_path: Path) -> None:
    write = session(tmp_path)
    write.execute(f"CREATE TABLE {write.ledger} (x BIGINT)")
    write.commit()
    with duckdb.connect(str(tmp_path / "store.duckdb"), read_only=True) as con:
        assert con.execute("SELECT schema_name, table_name FROM duckdb_tables()").fetchall() == [("mart", "_pz_ledger")]
