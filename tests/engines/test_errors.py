from __future__ import annotations

import duckdb
import pytest

from pz_core.engines.duckdb.errors import edge_error, foreign_error, is_transient, pipeline_error
from pz_core.values.duckdb_text import clean_message, first_line, without_values


@pytest.mark.parametrize(
    "text",
    [
        "HTTP Error: HTTP GET error on 'https://h/a.csv' (HTTP 503)",
        "HTTP Error: Unable to connect to URL https://h/a.parquet: HTTP 429 Too Many Requests",
        "IO Error: Could not establish connection error for HTTP HEAD to 'https://h/x'",
        'IO Error: Unable to connect to Postgres at "host=h": connection to server failed: Connection refused',
        "IO Error: Unable to connect to Postgres at \"a='b'\": failed: FATAL:  sorry, too many clients already",
        'IO Error: Unable to connect to Postgres at "a=\'b\'": failed: FATAL:  too many connections for role "x"',
        'IO Error: Unable to connect to Postgres at "a": FATAL:  remaining connection slots are reserved for roles',
        "IO Error: Connection reset by peer",
        "IO Error: Connection error for HTTP GET to 'https://h/x'",
        "IO Error: Timeout was reached",
        "IO Error: Operation timed out",
        'TransactionContext Error: Catalog write-write conflict on create with "t"',
    ],
)
def test_what_may_pass(text):
    assert is_transient(text)


@pytest.mark.parametrize(
    "text",
    [
        "HTTP Error: HTTP GET error on 'https://h/500/a.csv' (HTTP 404)",
        "HTTP Error: Unable to connect to URL https://h/HTTP 503/a: HTTP 403 Forbidden, request timeout header missing",
        "HTTP Error: HTTP HEAD error on 'https://h/HTTP 503/timeout.csv' (HTTP 403)",
        'IO Error: No files found that match the pattern "in/timeout/connection refused.csv"',
        "HTTP Error: took 500 milliseconds (HTTP 400)",
        "Binder Error: no\n\nLINE 1: select 'HTTP 503 connection refused'\n   ^",
        "Conversion Error: Could not convert string 'connection reset' to INT32",
        "Catalog Error: Table with name timeouts does not exist!",
    ],
)
def test_what_will_not_pass(text):
    assert not is_transient(text)


def test_the_echo_and_raw_lines_are_gone():
    text = 'Binder Error: column "a" not found!\nCandidate bindings: "b"\n\nLINE 3: select a\n        ^'
    assert clean_message(text) == 'Binder Error: column "a" not found!\nCandidate bindings: "b"'
    assert first_line(text) == 'Binder Error: column "a" not found!'
    assert "x,y" not in clean_message("CSV Error on Line: 2\nOriginal Line: x,y\nError when converting")
    assert clean_message("") == ""
    assert clean_message("Parser Error: OUTLINE 1: fine") == "Parser Error: OUTLINE 1: fine"


@pytest.mark.parametrize(
    "text",
    [
        "Conversion Error: Could not convert string 'hunter2' to INT32",
        'Error when converting column "a". Could not convert string "hun\'ter2" to \'INTEGER\'',
        'Constraint Error: Duplicate key "id: hunter2" violates primary key constraint.',
        "Conversion Error: Type INT64 with value hunter2 can't be cast because the value is out of range for INT32",
    ],
)
def test_known_places_of_values_are_blanked(text):
    assert "hun" not in without_values(text)
    assert len(without_values(text)) > 20


@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("select s::date from t", "invalid date field format, expected format is"),
        ("select s::timestamptz from t", "invalid timestamp field format"),
        ("select s::json from t", "Malformed JSON"),
        ("select d::decimal(4, 2) from t", "Casting value to type DECIMAL(4,2) failed"),
        ("select n + n from t", "Overflow in addition of INT64"),
        ("select n * n from t", "Overflow in multiplication of INT64"),
        ("select strptime(s, '%Y') from t", "Could not parse string"),
        ("select make_date(42424242, 1, 1)", "Date out of range"),
        ("select from_base64(s) from t", "Could not decode string"),
        ("insert into f values (4242)", "key does not exist in the referenced table"),
        ("delete from p", "key is still referenced by a foreign key"),
        ("insert into p values (42)", "Duplicate key violates primary key constraint"),
    ],
)
def test_what_duckdb_says_of_a_value_stays_without_the_value(sql, kept):
    with duckdb.connect() as con:
        con.execute("create table t as select 'hun\"ter 42' as s, 9223372036854774242 as n, 7654321.4242 as d")
        con.execute("create table p (id bigint primary key)")
        con.execute("create table f (id bigint references p (id))")
        con.execute("insert into p values (42)")
        con.execute("insert into f values (42)")
        with pytest.raises(duckdb.Error) as caught:
            con.execute(sql).fetchall()
    told = without_values(clean_message(str(caught.value)))
    assert kept in told
    assert "hun" not in told and "42" not in told.replace("DECIMAL(4,2)", "")


def test_names_and_files_stay_in_a_message():
    for text in (
        'IO Error: Cannot open file "/data/a.duckdb": Permission denied',
        'Binder Error: Referenced column "a" not found in FROM clause!',
        "Invalid Input Error: No magic bytes found at end of file 'in/a.parquet'",
        "Constraint Error: NOT NULL constraint failed: x.st",
        'Conversion Error: CSV Error on Line: 3\nError when converting column "a"',
    ):
        assert without_values(text) == text


def test_a_fault_of_the_system_in_a_connector_is_told_by_file_and_kind():
    made = foreign_error(PermissionError(13, "words of the system", "in/a.csv"), "shop.a", "src_shop__a")
    assert made.code == "PZ0501" and "shop.a" in made.message and "in/a.csv" in made.message
    assert "words of the system" not in made.message


def test_the_words_of_a_foreign_exception_are_not_told():
    made = foreign_error(ValueError("hunter2"), "shop.a", "src_shop__a")
    assert "ValueError" in made.message and "hunter2" not in made.render()
    assert str(made.cause) == "hunter2"


def test_a_full_disk_and_a_locked_file_name_the_way_out_and_a_lock_may_pass():
    full = 'IO Error: Could not write file "/data/o.csv": No space left on device'
    locked = 'IO Error: Could not set lock on file "/data/m.duckdb": Conflicting lock is held'
    assert "space" in str(edge_error(duckdb.IOException(full), "lake.o", "lake.o").hint)
    made = edge_error(duckdb.IOException(locked), "lake.o", "lake.o")
    assert made.transient and "other program" in str(made.hint)


def test_a_database_file_in_a_folder_that_is_not_there_asks_for_the_folder():
    text = 'IO Error: Cannot open file "/data/out/mart.duckdb": No such file or directory'
    assert "create the folder" in str(edge_error(duckdb.IOException(text), "mart.t", "mart.t").hint)


def test_an_open_quote_in_sql_is_not_blamed_on_a_csv_file():
    made = pipeline_error(duckdb.ParserException("Parser Error: unterminated quoted string at or near"), "o", "fix it")
    assert made.hint == "fix it"
