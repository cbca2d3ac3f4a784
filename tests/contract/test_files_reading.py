"""How files become typed columns: nothing is guessed from a sample, nothing changes on its way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pz_core.contract.connector import ConnectorError, CursorBounds
from pz_core.contract.files import HEAD_BYTES, FileRead, ResolvedRead, SourceFile, resolve
from pz_core.contract.files.model import reader_error


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as made:
        made.execute("SET TimeZone = 'UTC'")
        yield made


def file(folder: Path, name: str, content: str | bytes) -> SourceFile:
    data = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(data)
    return SourceFile(str(folder / name), name, data[:HEAD_BYTES], len(data) <= HEAD_BYTES)


def look(
    con: duckdb.DuckDBPyConnection,
    files: list[SourceFile],
    fmt: str = "csv",
    columns: dict[str, str] | None = None,
    bounds: CursorBounds | None = None,
    **options: Any,
) -> ResolvedRead:
    return resolve(con, FileRead("inbox.things", fmt, options, columns, bounds), files)  # type: ignore[arg-type]


def rows(con: duckdb.DuckDBPyConnection, made: ResolvedRead) -> list[tuple[Any, ...]]:
    return con.execute(made.query).fetchall()


def kinds(made: ResolvedRead) -> list[str]:
    return [kind for _, kind in made.columns]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-20", "0"], "BIGINT"),
        (["9223372036854775807", "-9223372036854775808"], "BIGINT"),
        (["9223372036854775808", "1"], "HUGEINT"),
        (["007", "12"], "VARCHAR"),
        (["+5"], "VARCHAR"),
        (["1.5", "2"], "DOUBLE"),
        (["0.30000000000000004", "1e-7"], "DOUBLE"),
        (["1.5", "nan", "-inf"], "DOUBLE"),
        (["nan", "inf"], "VARCHAR"),
        (["0.1234567890123456789"], "DECIMAL(38,19)"),
        (["9007199254740993", "0.5"], "DECIMAL(38,1)"),
        (["1" * 39], "VARCHAR"),
        (["1e400"], "VARCHAR"),
        (["1e-400"], "VARCHAR"),
        (["true", "False"], "BOOLEAN"),
        (["true", "yes"], "VARCHAR"),
        (["2026-01-31"], "DATE"),
        (["2026-02-30"], "VARCHAR"),
        (["03/04/2026"], "VARCHAR"),
        (["2026-01-31 10:00:00.123456", "2026-01-31"], "TIMESTAMP"),
        (["2026-01-31 10:00:00.1234567"], "VARCHAR"),
        (["2026-01-31T10:00:00Z", "2026-01-31 10:00:00+05:30"], "TIMESTAMP WITH TIME ZONE"),
        (["2026-01-31T10:00:00Z", "2026-01-31 10:00:00"], "VARCHAR"),
        (["2026-01-31 10:00:0Z"], "VARCHAR"),
        (["2026-01-31 24:00:00"], "VARCHAR"),
        ([" 026-01-31 10:00:00", "-026-01-31 10:00:00"], "VARCHAR"),
        (["10:00:00"], "TIME"),
    ],
)
def test_a_type_is_found_only_where_every_text_is_in_its_plain_form(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, texts: list[str], kind: str
) -> None:
    made = look(con, [file(tmp_path, "a.csv", "n,v\n" + "".join(f"1,{t}\n" for t in texts))])
    assert kinds(made) == ["BIGINT", kind]


@pytest.mark.parametrize(
    ("common", "late", "kind"),
    [("7", "7.625", "DOUBLE"), ("true", "yes", "VARCHAR"), ("", "5", "BIGINT"), ("2026-01-01", "soon", "VARCHAR")],
)
def test_a_value_far_below_the_sample_counts(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, common: str, late: str, kind: str
) -> None:
    made = look(con, [file(tmp_path, "a.csv", "n,v\n" + f"1,{common}\n" * 30_000 + f"2,{late}\n")])
    assert kinds(made)[1] == kind
    [(value,)] = con.execute(f"SELECT v FROM ({made.query}) WHERE n = 2").fetchall()
    assert str(value) == late


@given(
    st.lists(
        st.one_of(
            st.none(),
            st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=6),
            st.integers().map(str),
            st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
            st.floats().map(repr),
            st.datetimes().map(str),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_type_is_found_the_values_say_what_the_texts_said(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, values: list[str | None]
) -> None:
    lines = ["1," + ("" if v is None else '"' + v.replace('"', '""') + '"') for v in values]
    made = look(con, [file(tmp_path, "a.csv", "n,v\n" + "\n".join(lines) + "\n")])
    got = [row[1] for row in rows(con, made)]
    assert [v is None for v in got] == [v is None for v in values]
    if kinds(made)[1] in ("VARCHAR",):
        assert got == values
    elif kinds(made)[1] in ("BIGINT", "HUGEINT"):
        assert [None if v is None else str(v) for v in got] == values
    elif kinds(made)[1] == "DOUBLE":
        assert [v for v in got if v is not None and v == v] == [float(v) for v in values if v and v != "nan"]


def test_a_contract_binds_by_name_in_any_order_and_ignores_the_rest(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    made = look(con, [file(tmp_path, "a.csv", "x,ID,name\n9,1,a\n")], columns={"name": "varchar", "id": "int"})
    assert made.columns == (("name", "VARCHAR"), ("id", "INTEGER"))
    assert rows(con, made) == [("a", 1)]


def test_a_missing_column_is_named_with_its_file(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"inbox\.things: the header of a\.csv lacks 'price'") as caught:
        look(con, [file(tmp_path, "a.csv", "id\n1\n")], columns={"id": "int", "price": "double"})
    assert caught.value.code == "PZ0353"


def test_without_a_header_a_contract_binds_by_position(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    made = look(con, [file(tmp_path, "a.csv", "1,x,9\n2,y,8\n")], columns={"n": "int", "t": "varchar"}, header=False)
    assert rows(con, made) == [(1, "x"), (2, "y")]
    with pytest.raises(ConnectorError) as caught:
        look(con, [file(tmp_path, "a.csv", "1\n")], columns={"n": "int", "t": "varchar"}, header=False)
    assert caught.value.code == "PZ0353"


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("bigint", "7.625"),
        ("bigint", "1,5"),
        ("int", "3000000000"),
        ("decimal(18,2)", "1.005"),
        ("decimal", "1.234,50"),
        ("double", "9007199254740993"),
        ("double", "0.1234567890123456789"),
        ("double", "1e400"),
        ("date", "2026-01-01 10:00:00"),
        ("date", "03/04/2026"),
        ("timestamp", "2026-01-01 10:00:00+02:00"),
        ("timestamp", "2026-01-01 10:00:00.1234567"),
        ("boolean", "maybe"),
        ("uuid", "no-uuid"),
        ("json", "{"),
    ],
)
def test_a_declared_type_refuses_what_it_cannot_hold_by_column_and_row(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, word: str, text: str
) -> None:
    made = file(tmp_path, "a.csv", f'n,v\n1,\n2,"{text}"\n')
    with pytest.raises(ConnectorError, match=r"column 'v', row 2 of a\.csv") as caught:
        look(con, [made], columns={"v": word})
    assert caught.value.code == "PZ0812"
    assert text not in caught.value.message


@pytest.mark.parametrize(
    ("word", "text", "value"),
    [
        ("bigint", "007", "7"),
        ("bigint", "7.0", "7"),
        ("decimal(18,2)", "1.500", "1.50"),
        ("decimal", "1E-7", "0.000000100"),
        ("double", "0.1", "0.1"),
        ("timestamp", "2026-01-01T10:00:00Z", "2026-01-01 10:00:00"),
        ("timestamptz", "2026-01-01T10:00:00+02:00", "2026-01-01 08:00:00+00"),
        ("boolean", "Yes", "true"),
    ],
)
def test_a_declared_type_takes_what_names_one_value_of_it(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, word: str, text: str, value: str
) -> None:
    made = look(con, [file(tmp_path, "a.csv", f'n,v\n1,\n2,"{text}"\n')], columns={"v": word})
    assert con.execute(f"SELECT v::varchar FROM ({made.query}) ORDER BY 1 NULLS FIRST").fetchall() == [
        (None,),
        (value,),
    ]


def test_declared_instants_must_not_mix_with_and_without_zone(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    made = file(tmp_path, "a.csv", "v\n2026-01-01 10:00:00\n2026-01-01 10:00:00Z\n")
    with pytest.raises(ConnectorError, match="has instants"):
        look(con, [made], columns={"v": "timestamptz"})


@pytest.mark.parametrize(
    ("content", "columns", "options", "expected"),
    [
        ("a;b\n1,5;2,5\n", ["VARCHAR", "VARCHAR"], {}, [("1,5", "2,5")]),
        ("a;b\n1,5;1.234,5\n", ["DOUBLE", "DOUBLE"], {"decimal": ",", "thousands": "."}, [(1.5, 1234.5)]),
        ("a;b\n12.34;1\n", ["VARCHAR", "BIGINT"], {"decimal": ",", "thousands": "."}, [("12.34", 1)]),
        ("a|b\n'x|y'|2\n", ["VARCHAR", "BIGINT"], {"quote": "'"}, [("x|y", 2)]),
        ("a,b\n-,NA\n1,x\n", ["BIGINT", "VARCHAR"], {"null_text": ["-", "NA"]}, [(None, None), (1, "x")]),
        ('a,b\n1,\n2,""\n', ["BIGINT", "VARCHAR"], {}, [(1, None), (2, "")]),
        ('a\n\n""\nx\n', ["VARCHAR"], {}, [(None,), ("",), ("x",)]),
        ("a,b\r1,2\r", ["BIGINT", "BIGINT"], {}, [(1, 2)]),
        ('"a ""q"" b","c,d"\n1,2\n', ["BIGINT", "BIGINT"], {}, [(1, 2)]),
    ],
)
def test_dialects(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    content: str,
    columns: list[str],
    options: dict[str, Any],
    expected: list[tuple[Any, ...]],
) -> None:
    made = look(con, [file(tmp_path, "a.csv", content)], **options)
    assert kinds(made) == columns
    assert rows(con, made) == expected


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "latin-1"])
def test_encodings(con: duckdb.DuckDBPyConnection, tmp_path: Path, codec: str) -> None:
    encoding = codec.removesuffix("-sig")
    made = look(con, [file(tmp_path, "a.csv", "é,n\nü,1\n".encode(codec))], encoding=encoding)
    assert (made.columns, rows(con, made)) == ((("é", "VARCHAR"), ("n", "BIGINT")), [("ü", 1)])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"bus,stop\n1,a\n2\n", r"a\.csv, line 3: 1 fields where 2 are expected"),
        (b"a,b\r\r\n1,2\r\r\n", "carriage returns"),
        (b"a,b\r\n1,2\n3,4\r\n", "line ends"),
        (b"Tag,tag\n1,2\n", "one name in SQL"),
        (b"a,\n1,2\n", "has no name"),
        ("a\nü\n".encode("latin-1"), "not utf-8"),
        (b"", "0 bytes"),
        (b"\xef\xbb\xbf\n", "columns are not known"),
    ],
)
def test_files_that_cannot_be_read_are_named(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, content: bytes, says: str
) -> None:
    with pytest.raises(ConnectorError, match=says) as caught:
        look(con, [file(tmp_path, "a.csv", content)])
    assert "inbox.things" in caught.value.message and "a.csv" in caught.value.message


def test_files_of_a_glob_are_united_by_name(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    files = [
        file(tmp_path, "a.csv", "sku,qty\nA,1\n"),
        file(tmp_path, "b.csv", "QTY;sku;shelf\n2.5;B;S7\n"),
        file(tmp_path, "c.csv", ""),
    ]
    made = look(con, files)
    assert made.columns == (("sku", "VARCHAR"), ("qty", "DOUBLE"), ("shelf", "VARCHAR"))
    assert rows(con, made) == [("A", 1.0, None), ("B", 2.5, "S7")]


def test_a_zero_byte_file_under_a_contract_has_no_rows(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    made = look(con, [file(tmp_path, "a.csv", "")], columns={"n": "int", "d": "decimal"})
    assert (kinds(made), rows(con, made)) == (["INTEGER", "DECIMAL(38,9)"], [])


def test_bounds_cut_and_a_null_cursor_passes_only_without_a_floor(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    made = file(tmp_path, "a.csv", "n,at\n1,2026-01-01\n2,2026-01-02\n3,\n4,2026-01-03\n")
    floor = CursorBounds("at", "date", "2026-01-01", False, "2026-01-02", True)
    assert rows(con, look(con, [made], bounds=floor)) == rows(con, look(con, [made], bounds=floor))
    assert [r[0] for r in rows(con, look(con, [made], bounds=floor))] == [2]
    ceiling = CursorBounds("at", "date", None, False, "2026-01-02", True)
    assert [r[0] for r in rows(con, look(con, [made], bounds=ceiling))] == [1, 2, 3]
    with pytest.raises(ConnectorError, match="no column 'gone'"):
        look(con, [made], bounds=CursorBounds("gone", "date", "2026-01-01"))


# --- json ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("common", "late", "kind", "said"),
    [
        ("1", "-2.5", "DOUBLE", "-2.5"),
        ("null", '["a"]', "VARCHAR[]", "[a]"),
        ("true", "3", "JSON", "3"),
        ("1", "18446744073709551615", "HUGEINT", "18446744073709551615"),
        ('"2026-01-01"', '"soon"', "VARCHAR", "soon"),
        (
            '"2026-01-01T10:00:00+01:00"',
            '"2026-01-01T10:00:00+02:00"',
            "TIMESTAMP WITH TIME ZONE",
            "2026-01-01 08:00:00+00",
        ),
        ('"a"', '"b\\u0000c"', "VARCHAR", "b\0c"),
    ],
)
def test_json_types_come_from_all_records(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, common: str, late: str, kind: str, said: str
) -> None:
    content = "".join(f'{{"n":{i},"v":{common}}}\n' for i in range(25_000)) + f'{{"n":-1,"v":{late}}}\n'
    made = look(con, [file(tmp_path, "a.json", content)], "json")
    assert kinds(made) == ["BIGINT", kind]
    assert con.execute(f"SELECT v::varchar FROM ({made.query}) WHERE n = -1").fetchall() == [(said,)]


@pytest.mark.parametrize("layout", [None, "array"])
def test_an_array_is_recognised_and_may_be_declared(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, layout: str | None
) -> None:
    options = {"layout": layout} if layout else {}
    made = look(con, [file(tmp_path, "a.json", '[{"n": 1},\n {"n": 2, "s": "x"}]')], "json", **options)
    assert rows(con, made) == [(1, None), (2, "x")]


@pytest.mark.parametrize("content", ['{"v":1}\n{"v":0.1234567890123456789}\n', '{"v":1}\n{"v":1e400}\n'])
@pytest.mark.parametrize("columns", [None, {"v": "decimal(38,20)"}])
def test_a_json_number_that_the_reader_would_cut_is_refused(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, content: str, columns: dict[str, str] | None
) -> None:
    with pytest.raises(ConnectorError, match=r"key 'v', row 2 of a\.json") as caught:
        look(con, [file(tmp_path, "a.json", content)], "json", columns)
    assert caught.value.code == "PZ0812"


def test_json_contract_takes_missing_keys_and_refuses_wrong_values(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    made = file(tmp_path, "a.json", '{"a":1,"b":{"q":1}}\n{"b":"t","extra":5}\n')
    assert rows(con, look(con, [made], "json", {"a": "bigint", "b": "varchar", "c": "int"})) == [
        (1, '{"q":1}', None),
        (None, "t", None),
    ]
    with pytest.raises(ConnectorError, match=r"column 'a', row 2 of b\.json"):
        look(con, [file(tmp_path, "b.json", '{"a":1}\n{"a":7.625}\n')], "json", {"a": "bigint"})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "0 bytes"),
        ("[]", "holds no records"),
        ("1\n2\n", "no JSON objects"),
        ('{"Vat":1,"vat":2}\n', "one name in SQL"),
        ('{"a":1}\n{"a":\n', "not valid JSON"),
    ],
)
def test_json_that_cannot_be_read_is_named(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, content: str, says: str
) -> None:
    with pytest.raises(ConnectorError, match=says):
        look(con, [file(tmp_path, "a.json", content)], "json")


# --- parquet ---------------------------------------------------------------------------------------------------------


def parquet(con: duckdb.DuckDBPyConnection, folder: Path, name: str, query: str) -> SourceFile:
    con.execute(f"COPY ({query}) TO '{folder / name}' (FORMAT parquet)")
    return SourceFile(str(folder / name), name)


def test_parquet_values_come_back_as_they_are(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    query = (
        "select 18446744073709551615::ubigint u, 1.5::decimal(38,20) d, timestamptz '1969-12-31 23:59:59.999999Z' z, "
        "'x'::blob b, [1, NULL] l, 'nan'::double n"
    )
    made = look(con, [parquet(con, tmp_path, "a.parquet", query)], "parquet")
    assert (
        con.execute(f"SELECT t::varchar FROM ({made.query}) t").fetchall()
        == con.execute(f"SELECT t::varchar FROM ({query}) t").fetchall()
    )


def test_a_parquet_contract_refuses_what_it_would_change(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    made = parquet(con, tmp_path, "a.parquet", "select unnest([1.0, 7.5]) as v, 1 as n")
    assert rows(con, look(con, [made], "parquet", {"N": "bigint"})) == [(1,), (1,)]
    with pytest.raises(ConnectorError, match=r"column 'v', row 2 of a\.parquet"):
        look(con, [made], "parquet", {"v": "bigint"})


def test_parquet_files_that_no_one_type_can_hold_are_refused(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    files = [
        parquet(con, tmp_path, "a.parquet", "select 9007199254740993 as v"),
        parquet(con, tmp_path, "b.parquet", "select 0.5::double as v"),
    ]
    with pytest.raises(ConnectorError, match="column 'v' is BIGINT and DOUBLE"):
        look(con, files, "parquet")


def test_folders_called_name_value_add_no_column(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    (tmp_path / "k=9").mkdir()
    made = parquet(con, tmp_path, "k=9/p.parquet", "select 1 as k, 2 as v")
    assert rows(con, look(con, [made], "parquet")) == [(1, 2)]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("t.csv", "a\0b,c\n1,2\n", "PZ0353"),  # SQL would end at the NUL
        ("t.json", '{"": 1}\n', "PZ0353"),  # DuckDB would call it C0 and lose its values
        ("t.json", '{"a": 1, "": 2}\n{"a": 3}\n', "PZ0353"),
        ("t.json", '{"a\\u0000b": 1}\n', "PZ0353"),
        ("t.json", 'null\n{"a": 1}\n', "PZ0501"),  # DuckDB would make a row of NULLs of it
        ("t.json", '[{"a": 1}, null]', "PZ0501"),
        ("t.json", '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}\n", "PZ0501"),
    ],
)
def test_what_a_reader_would_change_without_a_word_is_refused_by_the_file(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, name: str, content: str, code: str
) -> None:
    fmt = name.rpartition(".")[2]
    with pytest.raises(ConnectorError, match=name) as caught:
        rows(con, look(con, [file(tmp_path, name, content)], fmt))
    assert caught.value.code == code and caught.value.hint


def test_a_key_that_is_called_as_duckdb_calls_a_nameless_one_is_read(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    assert rows(con, look(con, [file(tmp_path, "t.json", '{"C0": 1}\n')], "json")) == [(1,)]


def test_a_faulty_json_record_does_not_stand_in_the_message(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    files = [file(tmp_path, "t.json", '{"a":"hunter2","a":"hunter3"}\n')]
    with pytest.raises(duckdb.Error, match="hunter2") as caught:
        rows(con, look(con, files, "json"))
    told = reader_error(caught.value, FileRead("inbox.things", "json", {}), files)
    assert "hunter" not in told.render() and "t.json" in told.message


def test_a_csv_of_six_hundred_columns_is_looked_at_in_seconds(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    wide = 600
    content = ",".join(f"c{i}" for i in range(wide)) + "\n" + ",".join("1" for _ in range(wide)) + "\n"
    started = time.process_time()
    made = look(con, [file(tmp_path, "t.csv", content)])
    assert len(made.columns) == wide and set(kinds(made)) == {"BIGINT"}
    assert time.process_time() - started < 15  # in one query it took minutes: DuckDB plans in the square of the width
