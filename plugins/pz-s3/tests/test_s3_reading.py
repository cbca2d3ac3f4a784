"""What reaches the staging table from a real store, in both tiers."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pz_core.contract import CursorBounds
from pz_core.contract.connector import ConnectorError

ODD = ["day 1+2=all%41#é.csv", "a?b.csv", "q'uote\"x.csv", "st*r[1]!.csv", "tab\tx.csv", "nl\nx.csv", "amp&;,$@~().csv"]


def parquet(folder: Path, query: str) -> bytes:
    path = folder / "made.parquet"
    duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


def test_every_format_is_read_alike_in_both_tiers(moves: Any, s3: Any, tier: str, tmp_path: Path) -> None:
    s3.put("t.csv", 'id,x\n1,""\n2,\n')
    s3.put("t.tsv", 'id\tx\n1\t""\n2\t\n')
    s3.put("t.ndjson", '{"id":1,"x":""}\n{"id":2,"x":null}\n')
    s3.put("t.csv.gz", gzip.compress(b'id,x\n1,""\n2,\n'))
    s3.put("t.parquet", parquet(tmp_path, "FROM (VALUES (1::BIGINT, ''), (2, NULL)) t(id, x)"))
    for name in ("t.csv", "t.tsv", "t.ndjson", "t.csv.gz", "t.parquet"):
        assert moves.land(tier, options={"path": name}) == [(1, ""), (2, None)], name
        assert moves.landed.tier == tier
    assert moves.land(tier) == [(1, ""), (2, None)]  # <entity>.parquet


@pytest.mark.parametrize("name", ODD)
def test_a_key_is_meant_byte_for_byte(moves: Any, s3: Any, tier: str, name: str) -> None:
    s3.put(f"odd/{name}", "id\n7\n")
    s3.put("odd/day 1 2=allA#é.csv", "id\n0\n")
    s3.put("odd/a%3Fb.csv", "id\n0\n")
    s3.put("odd/star1!.csv", "id\n0\n")
    assert moves.land(tier, options={"path": f"odd/{name}"}) == [(7,)]
    assert moves.landed.tier == ("universal" if set(name) & set("?\t\n") else tier)


def test_a_glob_over_odd_keys_reads_each_once(moves: Any, s3: Any, tier: str) -> None:
    for number, name in enumerate(ODD):
        s3.put(f"odd/{name}", f"id\n{number}\n")
    s3.put("odd/.hidden.csv", "id\n99\n")
    s3.put("odd/deep/x.csv", "id\n99\n")
    assert moves.land(tier, options={"path": "odd/*.csv"}) == [(n,) for n in range(len(ODD))]
    assert [row[0] for row in moves.land(tier, options={"path": "odd/**/*.csv"})] == [*range(len(ODD)), 99]


def test_a_folder_means_its_files_of_the_format_and_no_marker(moves: Any, s3: Any, tier: str) -> None:
    s3.put("drop/", "")
    for name, body in (("a.csv", "id\n1\n"), ("b.csv", "id\n2\n"), ("c.json", '{"id":3}'), ("sub/d.csv", "id\n4\n")):
        s3.put(f"drop/{name}", body)
    for path in ("drop", "drop/"):
        assert moves.land(tier, options={"path": path, "format": "csv"}) == [(1,), (2,)]


def test_files_of_different_columns_are_united_and_types_are_proven_over_all_rows(
    moves: Any, s3: Any, tier: str
) -> None:
    s3.put("g/a.csv", "n\n" + "7\n" * 30_000 + "7.625\n")
    s3.put("g/b.csv", "n,m\n1,x\n")
    rows = moves.land(tier, options={"path": "g/*.csv"})
    assert (len(rows), rows[0], rows[-1]) == (30_002, (1.0, "x"), (7.625, None))


def test_a_value_that_does_not_fit_its_contract_is_named_with_its_object_and_row(
    moves: Any, s3: Any, tier: str
) -> None:
    s3.put("t.csv", "id\n1\n7.625\n")
    with pytest.raises(ConnectorError) as caught:
        moves.land(tier, options={"format": "csv"}, columns={"id": "bigint"})
    assert caught.value.code == "PZ0812"
    assert f"s3://{s3.bucket}/t.csv" in str(caught.value) and "7.625" not in str(caught.value)


def test_what_is_not_there_is_told_with_the_place(moves: Any, s3: Any, tier: str) -> None:
    s3.put("here/a.csv", "id\n1\n")
    for path, words in (("x.csv", "there is no object"), ("x*.csv", "no object matches"), ("here/b/", "holds no csv")):
        with pytest.raises(ConnectorError, match=words) as caught:
            moves.land(tier, options={"path": path, "format": "csv"})
        assert not caught.value.transient


def test_an_empty_object_is_refused_unless_a_contract_says_its_columns(moves: Any, s3: Any, tier: str) -> None:
    s3.put("t.csv", "")
    with pytest.raises(ConnectorError, match="0 bytes"):
        moves.land(tier, options={"format": "csv"})
    assert moves.land(tier, options={"format": "csv"}, columns={"id": "bigint"}) == []


DAYS = {"2026/01/30": 1, "2026/01/31": 2, "2026/02/01": 3, "2026/02/03": 4}


def window(lower: str | None, upper: str | None) -> CursorBounds:
    return CursorBounds("at", "timestamp", lower, False, upper, True)


def dated(s3: Any) -> dict[str, Any]:
    for day, number in DAYS.items():
        s3.put(f"e/{day}/a.csv", f"id,at\n{number},{day.replace('/', '-')} 12:00:00\n")
    return {"options": {"path": "e/{yyyy}/{MM}/{dd}/*.csv"}, "columns": {"id": "bigint", "at": "timestamp"}}


def test_a_window_reads_its_days_and_no_others(moves: Any, s3: Any, tier: str) -> None:
    read = dated(s3)
    s3.put("e/2026/02/02/a.csv", "not,the\ncontract\n")  # a day outside is never opened
    rows = moves.land(tier, **read, bounds=window("2026-01-30T12:00:00.000000", "2026-02-01T12:00:00.000000"))
    assert rows == [(2, datetime.datetime(2026, 1, 31, 12)), (3, datetime.datetime(2026, 2, 1, 12))]


def test_a_window_without_any_folder_has_no_rows_and_its_columns(moves: Any, s3: Any, tier: str) -> None:
    read = dated(s3)
    empty = window("2026-06-01T00:00:00.000000", "2026-06-02T00:00:00.000000")
    assert moves.land(tier, **read, bounds=empty) == []
    assert [(c.name, c.type) for c in moves.landed.columns] == [("id", "BIGINT"), ("at", "TIMESTAMP")]
    assert moves.land(tier, options=read["options"], bounds=empty) == []  # the columns are those of another day
    assert [c.name for c in moves.landed.columns] == ["id", "at"]


def test_without_bounds_all_days_are_read(moves: Any, s3: Any, tier: str) -> None:
    assert [row[0] for row in moves.land(tier, **dated(s3), bounds=window(None, None))] == [1, 2, 3, 4]


def test_two_connections_to_one_bucket_name_keep_their_own_credentials(moves: Any, s3: Any) -> None:
    s3.put("t.csv", "id\n1\n")
    moves.connections["wrong"] = moves.connection("wrong", secret_key="wrong")
    with pytest.raises(ConnectorError):
        moves.land("native", connection="wrong", options={"format": "csv"})
    moves.connections["reader"] = moves.connection("reader", access_key=s3.reader_key, secret_key=s3.reader_secret)
    for name in ("lake", "reader", "lake"):
        assert moves.land("native", connection=name, options={"format": "csv"}) == [(1,)]
        assert moves.landed.tier == "native"
    secrets = moves.query("SELECT scope::VARCHAR FROM duckdb_secrets() ORDER BY 1")
    assert len(secrets) == len(set(secrets)) == 2


def test_an_anonymous_connection_sends_no_credentials(moves: Any, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put("t.csv", "id\n1\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret)
    from pz_s3.connector import S3

    from pz_core.contract import ConnectionConfig

    options = {k: v for k, v in s3.options(anonymous=True).items() if "_key" not in k}
    moves.connections["anyone"] = S3(ConnectionConfig("anyone", "s3", options, str(moves.project)))
    with pytest.raises(ConnectorError, match="denied"):
        moves.land("universal", connection="anyone", options={"format": "csv"})


def test_nothing_is_left_on_this_machine_after_a_read(moves: Any, s3: Any) -> None:
    s3.put("t.csv", "id\n1\n")
    moves.land("universal", options={"format": "csv"})
    assert moves.left() == []
    with pytest.raises(ConnectorError):
        moves.land("universal", options={"format": "csv"}, columns={"id": "date"})
    assert moves.left() == []
