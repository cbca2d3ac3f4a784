"""One pass or two, the rows are the same: a guarded SELECT yields what the settled one yields, or it stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pz_core.contract.connector import ConnectorError, CursorBounds
from pz_core.contract.files import FileRead, SourceFile, resolve
from pz_core.contract.refusals import is_trip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as made:
        made.execute("SET TimeZone = 'UTC'")
        yield made


def file(folder: Path, texts: list[str | None], name: str = "a.csv") -> SourceFile:
    lines = ["1," + ("" if t is None else '"' + t.replace('"', '""') + '"') for t in texts]
    data = ("n,v\n" + "\n".join(lines) + "\n").encode()
    (folder / name).write_bytes(data)
    return SourceFile(str(folder / name), name, data[:5000], len(data) <= 5000)


def rows(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[str, ...]]:
    return con.execute(f"SELECT v::varchar, typeof(v) FROM ({query})").fetchall()


def guarded(
    con: duckdb.DuckDBPyConnection, source: SourceFile, columns: dict[str, str] | None = None, **options: Any
) -> list[tuple[str, ...]] | None:
    """Rows of the guarded SELECT; ``None`` where a guard trips."""
    made = resolve(con, FileRead("inbox.t", "csv", options, columns), [source], guarded=True)
    assert made.guarded
    try:
        return rows(con, made.query)
    except duckdb.Error as error:
        assert is_trip(str(error))
        return None


def settled(
    con: duckdb.DuckDBPyConnection, source: SourceFile, columns: dict[str, str] | None = None, **options: Any
) -> list[tuple[str, ...]] | None:
    """Rows of the settled SELECT; ``None`` where the contract does not hold."""
    try:
        return rows(con, resolve(con, FileRead("inbox.t", "csv", options, columns), [source]).query)
    except ConnectorError as error:
        assert error.code == "PZ0812"
        return None


#: (usual text, a text of the same kind in another spelling that is plain, a text that must not pass)
KINDS = [
    ("7", "-20", "7.625"),
    ("7", "9223372036854775807", "007"),
    ("7", "-9223372036854775808", "1_000"),
    ("7", "0", " 7"),
    ("7", "0", "+7"),
    ("7", "0", "-0"),
    ("7", "0", "7 "),
    ("7", "0", "1e3"),
    ("7", "0", "0x1F"),
    ("7", "0", "9223372036854775808"),
    ("9223372036854775808", "5", "1" * 39),
    ("9223372036854775808", "-" + "9" * 38, "99999999999999999999999999999999999999.5"),
    ("2.5", "-0.5", "0.1234567890123456789"),
    ("2.5", "1e-7", "1_000.5"),
    ("2.5", "-inf", "2.5 "),
    ("2.5", "7", "2.5\t"),
    ("2.5", ".5", " 2.5"),
    ("2.5", "0", "007.5"),
    ("2.5", "-0.0", "-007.5"),
    ("2.5", "nan", "1e400"),
    ("2.5", "0.30000000000000004", "9007199254740993"),
    ("2.5", "0.000", "1e-400"),
    ("0.1234567890123456789", "-1.5", "0.12345678901234567891"),
    ("2026-01-31", "0001-01-01", "2026-1-31"),
    ("2026-01-31", "9999-12-31", "2026-02-30"),
    ("2026-01-31", "2024-02-29", "infinity"),
    ("2026-01-31 10:00:00", "2026-01-31T10:00:00.5", "2026-01-31 10:00:00+02"),
    ("2026-01-31 10:00:00", "2026-01-31 10:00", "2026-01-31 10:00:00.1234567"),
    ("2026-01-31 10:00:00", "2026-01-31", "2026-01-31 24:00:00"),
    ("2026-01-31 10:00:00", "1969-12-31 23:59:59.999999", "12026-01-31 10:00:00"),
    ("2026-01-31 10:00:00", "2026-01-31 10:00:00.500", "2026-01-3  10:00:00"),
    ("2026-01-31 10:00:00", "2026-01-31", "-026-01-31 10:00:00"),
    ("2026-01-31 10:00:00Z", "2026-01-31T10:00:00+05:30", "2026-01-31 10:00:00"),
    ("12:30:00", "23:59", "24:00:00"),
    ("true", "False", "yes"),
    ("true", "TRUE", "1"),
]


@pytest.mark.parametrize(("usual", "plain", "other"), KINDS)
def test_a_text_far_below_the_sample_passes_in_its_plain_form_and_else_trips(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, usual: str, plain: str, other: str
) -> None:
    good = file(tmp_path, [usual] * 3_000 + [plain, None])
    assert guarded(con, good) == settled(con, good)
    assert guarded(con, file(tmp_path, [usual] * 3_000 + [other])) is None


def test_a_column_that_was_null_all_along_trips_at_its_first_value(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    late = file(tmp_path, [None] * 30_000 + ["5"])
    assert guarded(con, late) == settled(con, late) == [(None, "BIGINT")] * 30_000 + [("5", "BIGINT")]
    assert guarded(con, file(tmp_path, [None] * 101_000 + ["5"])) is None
    assert guarded(con, file(tmp_path, [None] * 3_000)) == [(None, "VARCHAR")] * 3_000


HOSTILE = st.sampled_from(
    sorted(
        {text for three in KINDS for text in three}
        | {"", "1.", "1,5", "0.", "-", "--1", "1e5", "1E+5", "٣", "1\u00a0", "1_0", "9" * 16, "t", "no", "2026/01/31"}
        | {"10", "-0.50", "12.30", "1234567890.12345678", "epoch", "-infinity", "2026-01-31 10:00:00 ", "12:30:00.5"}
    )
)


@given(st.lists(st.one_of(st.none(), HOSTILE), min_size=1, max_size=5))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_found_types_are_those_that_all_rows_settle(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, texts: list[str | None]
) -> None:
    source = file(tmp_path, texts)
    assert guarded(con, source) == settled(con, source)


WORDS = ["smallint", "int", "bigint", "ubigint", "hugeint", "double", "decimal", "decimal(9,2)", "decimal(2,2)"]
WORDS += ["boolean", "date", "time", "timestamp", "timestamptz", "uuid", "json", "varchar"]


@pytest.mark.parametrize("word", WORDS)
def test_a_contract_takes_and_refuses_the_same_texts_in_one_pass(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, word: str
) -> None:
    texts = sorted({text for three in KINDS for text in three} | {"1.", "7.0", "12.30", "0.25", "t", "no", "-1", "{}"})
    texts.append("5b9c9e4e-0f3e-4d6b-9d2a-0c7e7f5a1b2c")
    took = 0
    for text in texts:
        source = file(tmp_path, [text, None])
        made = guarded(con, source, {"v": word})
        assert made == settled(con, source, {"v": word}), text
        took += made is not None
    assert took


def test_a_mix_of_zones_far_below_the_sample_is_refused(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for first, later in (("2026-01-31 10:00:00", "2026-01-31 10:00:00Z"), ("2026-01-31 10:00:00Z", "2026-01-31 10:00")):
        source = file(tmp_path, [first] * 3_000 + [later])
        assert guarded(con, source, {"v": "timestamptz"}) is None
        assert settled(con, source, {"v": "timestamptz"}) is None


def test_other_spellings_of_numbers_and_null_go_under_guard_too(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    german = {"decimal": ",", "thousands": "."}
    good = file(tmp_path, ["1.234,50", "2,5", None])
    expected = [("1234.5", "DOUBLE"), ("2.5", "DOUBLE"), (None, "DOUBLE")]
    assert guarded(con, good, **german) == settled(con, good, **german) == expected
    assert guarded(con, file(tmp_path, ["1.234,50"] * 3_000 + ["2.5"]), **german) is None
    listed = file(tmp_path, ["5", "-99", "NA", "-", "x", "y", "z", None])
    nulls = {"null_text": ["-99", "NA", "-", "x", "y", "z"]}
    assert guarded(con, listed, **nulls) == settled(con, listed, **nulls) == [("5", "BIGINT")] + [(None, "BIGINT")] * 7


def test_a_bounded_read_is_always_proven(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    read = FileRead("inbox.t", "csv", {}, None, CursorBounds("v", "int", "1"))
    assert not resolve(con, read, [file(tmp_path, ["1", "2"])], guarded=True).guarded
