"""Numbers of many digits in JSON files: every digit is there, or the write is refused by name."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from pz_core.contract.files.writing import copy_options, copy_projection
from pz_core.values import Column, quote_literal


def written(path: Path, query: str) -> str:
    with duckdb.connect() as con:
        columns = [Column(r[0], r[1]) for r in con.execute(f"DESCRIBE {query}").fetchall()]
        projection = copy_projection("json", columns)
        target = quote_literal(str(path))
        con.execute(f"COPY (SELECT {projection} FROM ({query})) TO {target} ({copy_options('json', {})})")
    return path.read_text(encoding="utf-8")


def test_they_are_written_as_json_numbers_with_every_digit(tmp_path: Path) -> None:
    text = written(
        tmp_path / "x.json",
        "SELECT '-0.1234567890123456789012345678901234567'::DECIMAL(38,38) AS a, "
        "0.123456789012345678::DECIMAL(18,18) AS b, "
        "NULL::DECIMAL(20,20) AS c, 0.5::DOUBLE AS d, 'x' AS \"it's\"",
    )
    assert json.loads(text, parse_float=Decimal) == {
        "a": Decimal("-0.1234567890123456789012345678901234567"),
        "b": Decimal("0.123456789012345678"),
        "c": None,
        "d": Decimal("0.5"),
        "it's": "x",
    }


def test_the_guard_against_nan_stays_beside_them(tmp_path: Path) -> None:
    with pytest.raises(duckdb.Error, match=r"PZ0812.*column 'd'"):
        written(tmp_path / "x.json", "SELECT 0.5::DECIMAL(20,20) AS a, 'nan'::DOUBLE AS d")


def test_inside_other_values_they_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(duckdb.Error, match=r"PZ0812.*column 'inside'"):
        written(tmp_path / "x.json", "SELECT [0.5::DECIMAL(20,20)] AS inside")
    assert json.loads(written(tmp_path / "y.json", "SELECT NULL::DECIMAL(20,20)[] AS inside")) == {"inside": None}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '0.12345678901234567890123456789012345678'::DECIMAL(38,38) AS v",
        "SELECT '0.123456789012345678'::JSON AS v",
        "SELECT '{\"a\": [1, 12345678901234567.8]}'::JSON AS v",
    ],
)
def test_what_would_be_rounded_is_refused_by_name(tmp_path: Path, query: str) -> None:
    with pytest.raises(duckdb.Error, match=r"PZ0812.*column 'v'"):
        written(tmp_path / "x.json", query)


def test_json_that_is_kept_is_written(tmp_path: Path) -> None:
    value = '{"a": 123456789012345678901234567890, '
    value += '"b": 0.30000000000000004, "c": "0.123456789012345678 \\" 1.5", "d": 1.10}'
    text = written(tmp_path / "x.json", f"SELECT {quote_literal(value)}::JSON AS v, NULL::JSON AS n")
    assert json.loads(text, parse_float=Decimal) == {"v": json.loads(value, parse_float=Decimal), "n": None}
