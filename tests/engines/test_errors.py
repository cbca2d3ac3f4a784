from __future__ import annotations

import pytest

from pz_core.engines.duckdb.errors import is_transient, without_values
from pz_core.values.duckdb_text import clean_message, first_line


@pytest.mark.parametrize(
    "text",
    [
        "HTTP Error: HTTP GET error on 'https://h/a.csv' (HTTP 503)",
        "HTTP Error: Unable to connect to URL https://h/a.parquet: HTTP 429 Too Many Requests",
        "IO Error: Could not establish connection error for HTTP HEAD to 'https://h/x'",
        'IO Error: Unable to connect to Postgres at "host=h": connection to server failed: Connection refused',
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
