"""What reaches a file from the staging table, through the engine, in both tiers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pz_localfiles.connector import LocalFiles

from pz_core.contract import ConnectionConfig, WriteSpec
from pz_core.contract.connector import ConnectorError
from pz_core.contract.engine import DrainTask, EngineSettings, MaterialiseTask, NodeRef
from pz_core.engines.duckdb.engine import DuckDBEngine
from pz_core.strategies.replace import Replace


class Control:
    attempt = 1

    def progress(self, rows: int, bytes: int, batches: int) -> None: ...

    def raise_if_cancelled(self) -> None: ...

    def on_cancel(self, interrupt: Any) -> Any:
        return lambda: None


class Host:
    def __init__(self, project: Path) -> None:
        self._project = project

    def connector(self, connection: str) -> LocalFiles:
        return LocalFiles(ConnectionConfig(connection, "localfiles", {}, str(self._project)))

    def strategy(self, name: str) -> Replace:
        return Replace()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[DuckDBEngine]:
    made = DuckDBEngine(EngineSettings(str(tmp_path / "s.duckdb"), str(tmp_path / "spill"), threads=2), Host(tmp_path))  # type: ignore[arg-type]
    yield made
    made.close()


def drain(engine: DuckDBEngine, project: Path, sql: str, tier: str, *, as_view: bool = False) -> list[tuple[Any, ...]]:
    engine.materialise(MaterialiseTask(NodeRef("m", "r"), "r", sql, as_view), Control())
    write = WriteSpec(tier, {"format": "parquet"}, "replace", "swap", run_id="20260903T101533221Z-aa00")
    engine.drain(DrainTask(NodeRef("d", f"lake.{tier}"), "r", "lake", "localfiles", tier, write), Control())  # type: ignore[arg-type]
    with duckdb.connect() as con:
        return con.execute(f"SELECT s::varchar, typeof(s) FROM '{project}/{tier}/{tier}.parquet' ORDER BY 1").fetchall()


@pytest.mark.parametrize("as_view", [True, False])
def test_the_sum_of_a_bigint_is_exact_in_parquet_in_both_tiers(
    engine: DuckDBEngine, tmp_path: Path, as_view: bool
) -> None:
    values = "(1, 9007199254740993), (2, 9223372036854775807), (2, 9223372036854775807)"
    sql = f"SELECT sum(x) AS s FROM (VALUES {values}) v(g, x) GROUP BY g"
    expected = [("18446744073709551614", "DECIMAL(38,0)"), ("9007199254740993", "DECIMAL(38,0)")]
    assert drain(engine, tmp_path, sql, "native", as_view=as_view) == expected
    assert drain(engine, tmp_path, sql, "universal", as_view=as_view) == expected


@pytest.mark.parametrize("tier", ["native", "universal"])
def test_a_whole_number_of_39_digits_is_refused_by_column(engine: DuckDBEngine, tmp_path: Path, tier: str) -> None:
    with pytest.raises(ConnectorError, match="column 's'") as caught:
        drain(engine, tmp_path, "SELECT 170141183460469231731687303715884105727::hugeint AS s", tier)
    assert caught.value.code == "PZ0812"


@pytest.mark.parametrize("tier", ["native", "universal"])
@pytest.mark.parametrize(
    "value", ["interval '1.000004 seconds'", "timetz '10:00:00+02'", "union_value(a := 1)::union(a int, b varchar)"]
)
def test_what_parquet_would_change_without_a_word_is_refused_by_column(
    engine: DuckDBEngine, tmp_path: Path, tier: str, value: str
) -> None:
    with pytest.raises(ConnectorError, match="column 's'") as caught:
        drain(engine, tmp_path, f"SELECT {value} AS s", tier)
    assert caught.value.code == "PZ0812" and caught.value.hint


@pytest.mark.parametrize("tier", ["native", "universal"])
@pytest.mark.parametrize("value", ["interval '1 month 1.25 seconds'", "timetz '10:00:00+00'", "NULL::interval"])
def test_what_parquet_keeps_of_these_types_is_written(
    engine: DuckDBEngine, tmp_path: Path, tier: str, value: str
) -> None:
    with duckdb.connect() as con:
        expected = con.execute(f"SELECT ({value})::varchar").fetchall()[0][0]
    assert drain(engine, tmp_path, f"SELECT {value} AS s", tier)[0][0] == expected
