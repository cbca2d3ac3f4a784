"""What writing leaves in a real store: whole objects or none, neighbours untouched, no parts that nobody completes."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pz_s3 import client, workshop

from pz_core.contract.connector import ConnectorError, WriteSpec
from pz_core.contract.engine import Cancelled
from pz_core.errors import PzError
from pz_core.values import Column

OLD = "20260902T101533221Z-4c1a"
BIG = "SELECT i AS id, hash(i)::VARCHAR || hash(i + 1)::VARCHAR AS x FROM range(500_000) t(i)"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PART_BYTES", 5 * 1024 * 1024)  # the least that a store takes


def test_each_format_is_written_under_its_key_and_read_back(moves: Any, s3: Any, tier: str) -> None:
    rows = "FROM (VALUES (1::BIGINT, ''), (2, NULL)) t(id, x)"
    for options in ({"format": "csv"}, {"format": "tsv"}, {"format": "json"}, {"format": "parquet"}):
        result = moves.drain(rows, tier, options=options)
        assert (result.rows_written, result.tier) == (2, tier)
    moves.drain(rows, tier, options={"format": "csv", "compression": "gzip"})
    assert s3.listing() == ["w/w.csv", "w/w.csv.gz", "w/w.json", "w/w.parquet", "w/w.tsv"]
    assert s3.get("w/w.csv") == b'id,x\n1,""\n2,\n'
    for name in ("w.csv", "w.tsv", "w.json", "w.parquet", "w.csv.gz"):
        assert moves.land(tier, options={"path": f"w/{name}"}) == [(1, ""), (2, None)]
    assert moves.left() == []


@pytest.mark.parametrize("folder", ["heat 1+a=b%41#ü?/", "st*r[1]/", "q'u\"o/", "tab\there/", "a&;,$@~()"])
def test_a_key_is_written_byte_for_byte(moves: Any, s3: Any, tier: str, folder: str) -> None:
    moves.drain("SELECT 1 AS id", tier, options={"format": "csv", "path": folder})
    assert s3.listing() == [f"{folder.removesuffix('/')}/w.csv"]


def test_append_adds_an_object_a_run_and_a_second_attempt_adds_nothing(moves: Any, s3: Any, tier: str) -> None:
    for run in (OLD, moves.engine._session.settings.run_id, OLD):
        moves.drain("SELECT 1 AS id", tier, strategy="append", run_id=run, options={"format": "csv"})
    assert s3.listing() == [f"w/w-{OLD}-1.csv", f"w/w-{moves.engine._session.settings.run_id}-1.csv"]


def test_replace_removes_earlier_appends_and_nothing_else(moves: Any, s3: Any, tier: str) -> None:
    kept = ["w/notes.txt", "w/w-extra.csv", f"w/w-eu-{OLD}-1.csv", f"w/other-{OLD}-1.csv", f"w/deep/w-{OLD}-1.csv"]
    for key in (*kept, f"w/w-{OLD}-1.csv", f"w/w-{OLD}-1.parquet"):
        s3.put(key, "id\n1\n")
    moves.drain("SELECT 2 AS id", tier, options={"format": "csv"})
    assert s3.listing() == sorted([*kept, "w/w.csv"])


def test_zero_rows_are_a_whole_object_too(moves: Any, s3: Any, tier: str) -> None:
    moves.drain("SELECT 1 AS id WHERE false", tier, options={"format": "csv"})
    assert s3.get("w/w.csv") == b"id\n"


def test_a_long_file_goes_in_parts_and_arrives_whole(moves: Any, s3: Any, tier: str, small_parts: None) -> None:
    moves.drain(BIG, tier, options={"format": "parquet"})
    table = pq.read_table(io.BytesIO(s3.get("w/w.parquet")))
    assert len(s3.get("w/w.parquet")) > 2 * client.PART_BYTES
    assert (table.num_rows, sum(table["id"].to_pylist())) == (500_000, sum(range(500_000)))
    assert (s3.uploads(), moves.left()) == ([], [])


@pytest.mark.parametrize("rows", [1_000, 400_000])
def test_a_row_that_cannot_be_written_leaves_the_old_object(moves: Any, s3: Any, tier: str, rows: int) -> None:
    s3.put("w/w.json", "old")
    query = f"SELECT CASE WHEN i = {rows - 1} THEN 'NaN'::DOUBLE ELSE i END AS n FROM range({rows}) t(i)"
    with pytest.raises(PzError) as caught:
        moves.drain(query, tier, options={"format": "json"})
    assert caught.value.code == "PZ0812"
    assert (s3.listing(), s3.get("w/w.json"), s3.uploads(), moves.left()) == (["w/w.json"], b"old", [], [])


def test_a_refused_part_aborts_the_upload(moves: Any, s3: Any, tier: str, small_parts: None, monkeypatch: Any) -> None:
    s3.put("w/w.parquet", "old")
    real = client.Client._client

    def failing(self: client.Client) -> Any:
        made = real(self)
        send = made.upload_part

        def upload_part(**request: Any) -> Any:
            if request["PartNumber"] == 2:
                request["UploadId"] = "of nobody"
            return send(**request)

        made.upload_part = upload_part
        return made

    monkeypatch.setattr(client.Client, "_client", failing)
    with pytest.raises(ConnectorError):
        moves.drain(BIG, tier, options={"format": "parquet"})
    assert (s3.listing(), s3.get("w/w.parquet"), s3.uploads(), moves.left()) == (["w/w.parquet"], b"old", [], [])


def test_cancelling_during_the_upload_leaves_the_old_object_and_no_parts(
    moves: Any, s3: Any, small_parts: None, monkeypatch: Any
) -> None:
    s3.put("w/w.parquet", "old")
    real = client.Client._send

    def send(self: client.Client, *arguments: Any) -> Any:
        moves.control.cancel()
        return real(self, *arguments)

    monkeypatch.setattr(client.Client, "_send", send)
    with pytest.raises(Cancelled):
        moves.drain(BIG, options={"format": "parquet"})
    assert (s3.get("w/w.parquet"), s3.uploads(), moves.left()) == (b"old", [], [])


def test_an_identity_that_may_not_write_is_told_what_it_lacks(moves: Any, s3: Any, tier: str) -> None:
    moves.connections["reader"] = moves.connection("reader", access_key=s3.reader_key, secret_key=s3.reader_secret)
    with pytest.raises(ConnectorError, match="denied") as caught:
        moves.drain("SELECT 1 AS id", tier, connection="reader", options={"format": "csv"})
    assert "s3:PutObject" in str(caught.value.hint) and not caught.value.transient
    assert s3.reader_secret not in str(caught.value)
    assert (s3.listing(), moves.left()) == ([], [])


def test_readers_see_the_old_object_or_the_new_one(moves: Any, s3: Any, small_parts: None) -> None:
    moves.drain(BIG, options={"format": "parquet"})
    seen, done = set(), threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add(pq.read_table(io.BytesIO(s3.get("w/w.parquet"))).num_rows)

    reader = threading.Thread(target=look)
    reader.start()
    for rows in (400_000, 450_000):
        moves.drain(BIG.replace("500_000", str(rows)), options={"format": "parquet"})
    done.set()
    reader.join()
    assert seen <= {500_000, 400_000, 450_000} and len(seen) > 1


def test_what_a_killed_process_left_is_cleared_by_the_next_write(moves: Any, s3: Any, tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import json, sys, time
        from pathlib import Path
        from pz_s3 import client, workshop
        from pz_s3.settings import Settings
        from pz_core.contract import ConnectionConfig
        client.PART_BYTES = 1024 * 1024
        options, base = json.loads(sys.argv[1]), sys.argv[2]
        made = client.Client(Settings.of(ConnectionConfig("lake", "s3", options, base)))
        folder = workshop.new_folder(made.settings)
        (folder / "rows").write_bytes(bytes(9 * 1024 * 1024))
        sent = 0
        def stopped():
            global sent
            sent += 1
            if sent > 4:
                print("in the middle", flush=True)
                time.sleep(600)
            return False
        made.upload(folder / "rows", options["root"], "w/w.csv", stopped,
                    lambda upload: workshop.note(folder, workshop.Upload(options["root"], "w/w.csv", upload)))
        """
    )
    import json

    arguments = [sys.executable, "-c", script, json.dumps(s3.options()), str(tmp_path)]
    writer = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None and writer.stdout.readline() == "in the middle\n"
    assert s3.uploads() == ["w/w.csv"]
    moves.drain("SELECT 1 AS id", options={"format": "csv"})
    assert s3.uploads() == ["w/w.csv"]  # its process lives
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert any(name.endswith(".upload.json") for name in moves.left())
    moves.drain("SELECT 2 AS id", options={"format": "csv"})
    assert (s3.uploads(), s3.listing(), moves.left()) == ([], ["w/w.csv"], [])


def test_a_plan_of_a_write_makes_nothing(moves: Any, tmp_path: Path) -> None:
    sink = moves.connections["lake"].open_sink()
    copy = sink.native_write(WriteSpec("w", {"format": "csv"}, "replace", "swap"))
    assert "://" not in copy.path and moves.left() == []
    assert workshop.planned_folder(sink._settings).is_relative_to(tmp_path)


def test_the_client_of_a_write_is_made_while_rows_come(moves: Any, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()
    make = client.Client._client
    monkeypatch.setattr(client.Client, "_client", lambda self: [begun.set(), make(self)][1])
    sink = moves.connections["lake"].open_sink()
    spec = WriteSpec("w", {"format": "csv"}, "replace", "swap")
    assert not begun.is_set()
    if tier == "native":
        sink.native_write(spec)  # a plan: no columns
        assert not begun.wait(0.1)
        sink.native_write(msgspec.structs.replace(spec, columns=(Column("id", "BIGINT"),)))
    else:
        sink.begin(spec, (Column("id", "BIGINT"),)).abort()
    assert begun.wait(10)
    sink.close()
