"""What is decided without a store: options, places, patterns, and what is kept out of sight."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pz_s3 import httpfs
from pz_s3.client import Client
from pz_s3.connector import S3
from pz_s3.places import below, matches, source_place, target_folder
from pz_s3.settings import Settings

from pz_core.contract import ConnectionConfig, CursorBounds, ReadSpec, Secret, WriteSpec
from pz_core.contract.connector import ConnectorError


def lake(name: str = "lake", base: str = "/project", **options: object) -> S3:
    given = {k: Secret(str(v)) if k in ("access_key", "secret_key", "session_token") else v for k, v in options.items()}
    return S3(ConnectionConfig(name, "s3", given, base))  # type: ignore[arg-type]


def settings(**options: object) -> Settings:
    return Settings.of(ConnectionConfig("lake", "s3", options, "/project"))  # type: ignore[arg-type]


def codes(faults: object) -> list[str]:
    return [fault.code for fault in faults]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"access_key": "a"}, "secret_key"),
        ({"secret_key": "a"}, "access_key"),
        ({"session_token": "t"}, "access_key"),
        ({"access_key": "a", "secret_key": "b", "profile": "p"}, "profile"),
        ({"profile": "p", "anonymous": True}, "anonymous"),
        ({"endpoint": "http://minio:9000", "use_ssl": True}, "use_ssl"),
        ({"endpoint": "minio:9000/lake"}, "endpoint"),
        ({"endpoint": "https://"}, "endpoint"),
        ({"endpoint": "user:hunter2@minio"}, "endpoint"),
    ],
)
def test_options_that_contradict_each_other_are_named(options: dict[str, object], word: str) -> None:
    (fault,) = lake(**options).validate()
    assert fault.code == "PZ0301"
    assert word in fault.message
    assert "hunter2" not in str(fault)


def test_an_endpoint_says_by_its_scheme_whether_it_speaks_tls() -> None:
    assert settings(endpoint="http://minio:9000").address == "http://minio:9000"
    assert settings(endpoint="minio:9000").address == "https://minio:9000"
    assert settings(endpoint="minio:9000", use_ssl=False).address == "http://minio:9000"
    assert (settings(endpoint="minio").style, settings().style) == ("path", "vhost")


@pytest.mark.parametrize(
    ("root", "options", "key"),
    [
        ("lake", {}, "s3://lake/orders.parquet"),
        ("lake/raw", {}, "s3://lake/raw/orders.parquet"),
        ("s3://lake/raw/", {}, "s3://lake/raw/orders.parquet"),
        ("lake/raw", {"path": "x/*.csv"}, "s3://lake/raw/x/*.csv"),
        ("lake/raw", {"path": "/x.csv"}, "s3://lake/x.csv"),
        ("lake/raw", {"bucket": "other", "path": "x.csv"}, "s3://other/x.csv"),
        ("", {"bucket": "other"}, "s3://other/orders.parquet"),
        ("lake/raw", {"path": "s3://third/x.csv"}, "s3://third/x.csv"),
        ("lake", {"path": "a//b %2F+#é?.csv"}, "s3://lake/a//b %2F+#é?.csv"),
    ],
)
def test_a_read_is_where_root_bucket_and_path_say(root: str, options: dict[str, str], key: str) -> None:
    made = settings(root=root) if root else settings()
    assert source_place(made, "orders", options, options.get("path"), "parquet").shown == key


@pytest.mark.parametrize(
    ("root", "path", "key"),
    [
        ("lake", None, "s3://lake/orders/orders.csv"),
        ("lake/raw", "day 1+/", "s3://lake/raw/day 1+/orders.csv"),
        ("lake/raw", "/", "s3://lake/orders.csv"),
        ("lake", "", "s3://lake/orders.csv"),
        ("lake", "a//", "s3://lake/a//orders.csv"),
    ],
)
def test_a_write_is_in_its_folder(root: str, path: str | None, key: str) -> None:
    folder = target_folder(settings(root=root), "orders", {} if path is None else {"path": path})
    assert below(folder, "orders.csv").shown == key


@pytest.mark.parametrize(
    ("options", "entity", "path", "code"),
    [
        ({}, "orders", None, "PZ0353"),
        ({"root": "lake"}, "orders", "../x.csv", "PZ0365"),
        ({"root": "lake/a"}, "orders", "b/../../x.csv", "PZ0365"),
        ({"root": "lake"}, "orders", "./x.csv", "PZ0365"),
        ({"root": "la ke"}, "orders", None, "PZ0353"),
        ({"root": "lake"}, "orders", "s3:///x.csv", "PZ0353"),
    ],
)
def test_places_that_are_none_are_refused_on_both_sides(
    options: dict[str, str], entity: str, path: str | None, code: str
) -> None:
    given = {} if path is None else {"path": path}
    connector = lake(**options)
    assert codes(connector.validate_read(ReadSpec(entity, given))) == [code]
    assert codes(connector.validate_write(WriteSpec(entity, {**given, "format": "csv"}))) == [code]


def test_a_path_with_another_bucket_than_bucket_says_is_refused() -> None:
    with pytest.raises(ConnectorError, match="another bucket") as caught:
        source_place(settings(root="lake"), "t", {"bucket": "one"}, "s3://two/x.csv", "csv")
    assert caught.value.code == "PZ0353"


def test_formats_and_their_options_are_checked_like_those_of_files() -> None:
    connector = lake(root="lake")
    assert codes(connector.validate_read(ReadSpec("t", {"format": "xlsx"}))) == ["PZ0361"]
    assert codes(connector.validate_read(ReadSpec("t", {"header": True}))) == ["PZ0362"]
    assert codes(connector.validate_write(WriteSpec("t", {"format": "csv", "layout": "array"}))) == ["PZ0362"]
    assert connector.validate_read(ReadSpec("t", {"path": "t.csv", "header": True})) == []


def test_outputs_of_one_place_are_recognised_through_two_connections() -> None:
    one, two = lake("one", root="lake/raw"), lake("two", root="lake")
    assert one.write_place(WriteSpec("t", {"format": "csv"})) == two.write_place(
        WriteSpec("x/t", {"format": "csv", "path": "raw/t/"})
    )
    assert one.write_place(WriteSpec("t", {"format": "csv"})) != one.write_place(WriteSpec("t", {"format": "parquet"}))


@pytest.mark.parametrize(
    ("pattern", "key", "meant"),
    [
        ("a/*.csv", "a/x.csv", True),
        ("a/*.csv", "a/b/x.csv", False),
        ("a/**/*.csv", "a/x.csv", True),
        ("a/**/*.csv", "a/b/c/x.csv", True),
        ("a/**", "a/b/c/x.csv", True),
        ("a/x**y.csv", "a/x1y.csv", True),
        ("a/x**y.csv", "a/x/y.csv", False),
        ("a/?.csv", "a/é.csv", True),
        ("a/?.csv", "a//.csv", False),
        ("a/[0-9].csv", "a/5.csv", True),
        ("a/[!0-9].csv", "a/5.csv", False),
        ("a/[!0-9].csv", "a/x.csv", True),
        ("a/[]x].csv", "a/].csv", True),
        ("a/[x.csv", "a/[x.csv", True),
        ("a/[z-a].csv", "a/b.csv", False),
        ("a/[^a].csv", "a/b.csv", True),
        ("a/[a^].csv", "a/^.csv", True),
        ("a/(1+1)$.*", "a/(1+1)$.csv", True),
        ("a/*.csv", "a/.hidden.csv", False),
        ("a/.h*.csv", "a/.hidden.csv", True),
        (".h/*.csv", ".h/x.csv", True),
        ("a/**/*.csv", "a/.tmp/x.csv", False),
        ("a/*.csv", "a/new\nline.csv", True),
    ],
)
def test_patterns_mean_what_they_mean_for_files(pattern: str, key: str, meant: bool) -> None:
    assert matches(pattern, key) is meant


def test_three_connections_to_one_bucket_name_are_told_apart_and_a_fourth_reads_in_batches(tmp_path: object) -> None:
    base = str(tmp_path)
    scans = [lake(f"c{i}", base, root="lake").open_source().native_scan(ReadSpec("t")) for i in (0, 1, 2, 3, 0)]
    assert [scan is not None for scan in scans] == [True, True, True, False, True]
    words = [httpfs.scheme(Client(Settings.of(ConnectionConfig(f"c{i}", "s3", {}, base))), "lake") for i in range(3)]
    assert words == ["s3", "s3a", "s3n"]


def test_a_plan_of_a_windowed_path_names_a_pattern_and_asks_nothing() -> None:
    spec = ReadSpec(
        "e", {"path": "e/{yyyy}/{MM}/*.csv"}, {"at": "timestamp"}, CursorBounds("at", "timestamp", None, False, None)
    )
    scan = lake(root="lake", access_key="AKIA1", secret_key="hunter2").open_source().native_scan(spec)
    assert scan is not None and "[0-9][0-9]" in scan.query
    assert [step.kind for step in scan.setup] == ["extension"]  # no secret: a plan asks for none


def test_no_secret_is_in_any_text_of_the_connection_or_its_statements(tmp_path: object) -> None:
    config = ConnectionConfig(
        "lake", "s3", {"root": "lake", "access_key": Secret("AKIA1"), "secret_key": Secret("hunter2")}, str(tmp_path)
    )
    made = Settings.of(config)
    client = Client(made)
    statements = httpfs.setup(client, "s3", "lake")
    for text in (repr(made), repr(client.keys()), repr(statements), str(statements)):
        assert "hunter2" not in text and "AKIA1" not in text
    assert any("hunter2" in one.sql for one in statements)


def test_registering_imports_nothing_heavy() -> None:
    heavy = "{m.split('.')[0] for m in sys.modules} & {'duckdb', 'pyarrow', 'botocore', 'obstore', 'urllib3'}"
    code = f"import sys, pz_s3 as p; p.pz_connectors(); import pz_s3.connector; print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
