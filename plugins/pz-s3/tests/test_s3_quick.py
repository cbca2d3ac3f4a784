"""The quick way asks and answers as botocore does, or leaves a question to it."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pz_s3.client import Client
from pz_s3.connector import S3
from pz_s3.quick import Unsure
from pz_s3.settings import Settings

from pz_core.contract import ConnectionConfig, ReadSpec, Secret, resolved_scan
from pz_core.contract.connector import ConnectorError

PLAIN = [
    "a.csv", "a b.csv", " lead", "trail ", "trail /x", "a+b", "a%b", "a%2Fb", "a%41", "%2e%2e/x", "a#b",
    "a&b=c;d,$@:~()", "é ü 漢字 😀", "e\u0301", "a/..b/x", "a/...", "q'\"q", "st*r[1]!{}", "<x>|^`", "a/b", "a/b.c",
    "a/bc",
]  # fmt: skip
ODD = [
    "a?b",
    "back\\slash",
    "a//b",
    "/a",
    "folder/",
    "./a",
    "a/./b",
    "a/../b",
    "..",
    "tab\tx",
    "nl\nx",
    "a\x7fb",
    "\x85",
]


@pytest.fixture(autouse=True)
def _nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def client(**options: object) -> Client:
    given = {"access_key": "AKIA1", "secret_key": "hunter2", "region": "us-east-1", **options}
    known = {name: value for name, value in given.items() if value is not None}
    return Client(Settings.of(ConnectionConfig("lake", "s3", known)))  # type: ignore[arg-type]


def slow(**options: object) -> Client:
    """The same without the quick way."""
    made = client(**options)
    made._quick._failed = True
    return made


class Echo(http.server.BaseHTTPRequestHandler):
    """Has every object, with five bytes."""

    asked: list[tuple[str, str, dict[str, str]]]
    status: int

    def do_GET(self) -> None:
        type(self).asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
        ranged = "Range" in self.headers and self.status == 200
        body = (b"hello"[:3] if ranged else b"hello") if self.status == 200 else b""
        self.send_response(206 if ranged else self.status)
        if ranged:
            self.send_header("Content-Range", "bytes 0-2/5")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Tue, 01 Sep 2026 10:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def echo() -> Iterator[Any]:
    """Its handler; ``url`` says where it is."""
    made: Any = type("Handler", (Echo,), {"asked": [], "status": 200})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
    made.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def was_quick(echo: Any) -> bool:
    agents = {headers["user-agent"].split("/")[0] for _, _, headers in echo.asked}
    assert len(agents) == 1, agents
    return agents == {"object_store"}


def head_of(made: Client, key: str, bucket: str = "lake") -> bytes:
    with made.reading(bucket, key, 3) as body:
        return bytes(body.read())


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", PLAIN + ODD)
def test_a_key_is_asked_for_alike(echo: Any, key: str) -> None:
    asked = {}
    for way in (client, slow):
        echo.asked.clear()
        made = way(endpoint=echo.url)
        answers = (made.object("lake", key), head_of(made, key))
        assert was_quick(echo) == (way is client and key in PLAIN)
        asked[way] = (answers, [request[:2] for request in echo.asked])
        made.close()
    assert asked[client] == asked[slow]


def test_a_store_answers_alike(s3: Any) -> None:
    quick, plain = client(**s3.options()), slow(**s3.options())
    for size, key in enumerate(PLAIN + ODD, 3):
        if "." in key.split("/") or ".." in key.split("/"):
            continue  # the store refuses them
        s3.put(key, b"x" * size if not key.endswith("/") else b"")
    for key in PLAIN + ODD + ["missing", "a", "é"]:
        answers = []
        for made in (quick, plain):
            made._quick._failed = made is plain
            try:
                found = made.object(s3.bucket, key)
                answers.append((found, None if found is None or not found.size else head_of(made, key, s3.bucket)))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the same
                answers.append((type(error), str(error)))
            assert made._quick._failed == (made is plain), key
        assert answers[0] == answers[1], key
    assert plain._quick._stores == {} and quick._quick._stores != {}


# --- what is around ---------------------------------------------------------------------------------------------------

AROUND = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
    "AWS_SESSION_TOKEN": "of-somebody-else",
    "AWS_SKIP_SIGNATURE": "true",
    "AWS_REQUEST_PAYER": "true",
    "AWS_S3_US_EAST_1_REGIONAL_ENDPOINT": "regional",
    "AWS_MAX_ATTEMPTS": "3",
    "NO_PROXY": "*",
}


@pytest.mark.parametrize("name", AROUND)
def test_a_variable_that_may_say_more_is_left_to_botocore(
    echo: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, AROUND[name])
    assert client(endpoint=echo.url).object("lake", "a") is not None
    assert not was_quick(echo)
    assert "of-somebody-else" not in str(echo.asked)


def test_variables_that_options_overrule_do_not_leak_in(echo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE"):
        monkeypatch.setenv(name, "other")
    made = client(endpoint=echo.url)
    assert made.object("lake", "a") is not None and head_of(made, "a") == b"hel"
    assert was_quick(echo)
    for _, _, headers in echo.asked:
        assert "=AKIA1/" in headers["authorization"] and "/us-east-1/s3/" in headers["authorization"]
    echo.asked.clear()
    made = client(endpoint=echo.url, access_key=None, secret_key=None, anonymous=True)
    assert made.object("lake", "a") is not None and was_quick(echo)
    assert not any(name in headers for _, _, headers in echo.asked for name in ("authorization", "x-amz-date"))


def test_a_token_is_left_to_botocore_which_takes_it_nowhere_else(echo: Any) -> None:
    assert client(endpoint=echo.url, session_token="of-mine").object("lake", "a") is not None
    assert not was_quick(echo)
    assert all(headers["x-amz-security-token"] == "of-mine" for _, _, headers in echo.asked)


def test_a_proxy_and_a_file_of_settings_are_left_to_botocore(
    echo: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def asks_quickly() -> bool:
        quick = client(endpoint=echo.url)._quick
        try:
            return quick.size("lake", "a") == 5
        except Unsure:
            return False

    assert asks_quickly()
    for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        with monkeypatch.context() as around:
            around.setenv(name, "http://127.0.0.1:1")
            assert not asks_quickly()
    (tmp_path / ".aws").mkdir()
    assert not asks_quickly()


@pytest.mark.parametrize(
    ("options", "bucket", "endpoint"),
    [
        ({}, "lake", "https://lake.s3.amazonaws.com"),
        ({"region": "eu-west-1"}, "lake", "https://lake.s3.eu-west-1.amazonaws.com"),
        ({"region": "us-gov-west-1"}, "my-lake1", "https://my-lake1.s3.us-gov-west-1.amazonaws.com"),
        ({"url_style": "path"}, "my.lake", "https://s3.amazonaws.com"),
        ({"endpoint": "minio:9000"}, "my.lake", "https://minio:9000"),
        ({"endpoint": "http://minio:9000"}, "lake", "http://minio:9000"),
        ({}, "my.lake", None),
        ({}, "Lake", None),
        ({}, "lake--use1-az4--x-s3", None),
        ({"region": "cn-north-1"}, "lake", None),
        ({"region": "us-iso-east-1"}, "lake", None),
        ({"region": "aws-global"}, "lake", None),
        ({"use_ssl": False}, "lake", None),
        ({"endpoint": "minio:9000", "url_style": "vhost"}, "lake", None),
    ],
)
def test_the_address_is_the_one_that_botocore_takes(options: dict[str, Any], bucket: str, endpoint: str | None) -> None:
    made = client(**options)
    if endpoint is None:
        with pytest.raises(Unsure):
            made._quick._endpoint(bucket, made.region())
        return
    assert made._quick._endpoint(bucket, made.region()) == endpoint
    url = made._client().generate_presigned_url("head_object", {"Bucket": bucket, "Key": "a"})
    path = "" if made.settings.style == "vhost" else f"/{bucket}"
    assert url.split("?")[0] == f"{endpoint}{path}/a"


def test_certificates_named_elsewhere_are_left_to_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert client()._quick._is_simple()
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        with monkeypatch.context() as around:
            around.setenv(name, "/ca.pem")
            assert not client()._quick._is_simple()
            assert client(use_ssl=False)._quick._is_simple()


def test_keys_that_are_not_given_are_left_to_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not client(access_key=None, secret_key=None)._quick._is_simple()
    assert not client(access_key=None, secret_key=None, profile="lake")._quick._is_simple()
    assert not client(anonymous=True, access_key=None, secret_key=None, profile="lake")._quick._is_simple()


def test_the_region_is_the_environments_or_the_files_before_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert client(region=None).region() == "us-east-1"
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-west-9\n")
    assert client(region=None).region() == "eu-west-9"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-8")
    assert client(region=None).region() == "eu-west-8"
    monkeypatch.setenv("AWS_REGION", "eu-west-7")
    assert client(region=None).region() == "eu-west-7"
    assert client().region() == "us-east-1"


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"secret_key": "wrong"}, "secret key is wrong"),
        ({"access_key": "wrong"}, "does not know the access key"),
        ({"session_token": "wrong"}, ""),
        ({"root": "no-such-bucket"}, "does not exist"),
        ({"root": None}, "neither root:"),
        ({"endpoint": "127.0.0.1:1"}, "cannot be reached"),
        ({"endpoint": "nowhere.invalid"}, "cannot be reached"),
        ({"use_ssl": True}, "TLS"),
        ({}, "there is no object"),
    ],
)
def test_a_fault_is_told_as_without_the_quick_way(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    given = {name: value for name, value in {**s3.options(), **change}.items() if value is not None}
    secret = {name: Secret(str(value)) for name, value in given.items() if "_key" in name or "token" in name}
    told = []
    for failed in (False, True):
        source = S3(ConnectionConfig("lake", "s3", {**given, **secret}, str(tmp_path))).open_source()
        source._client._quick._failed = failed
        try:
            resolved_scan(source, ReadSpec("t", {"format": "csv"}))
        except ConnectorError as error:
            told.append((error.code, error.message, error.hint, error.transient, type(error.__cause__)))
        else:
            told.append(())
        finally:
            source.close()
    assert told[0] == told[1]
    assert not words or words in told[0][1], told
    assert s3.secret not in str(told) and s3.key not in str(told)


def test_after_a_fault_only_botocore_is_asked_and_nothing_twice(echo: Any) -> None:
    echo.status = 503
    made = client(endpoint=echo.url)
    for expected in (["object_store", "Botocore", "Botocore"], ["Botocore", "Botocore"]):
        echo.asked.clear()
        with pytest.raises(Exception, match="503") as caught:
            made.object("lake", "a")
        assert [headers["user-agent"].split("/")[0] for _, _, headers in echo.asked] == expected
        chain: BaseException | None = caught.value
        while chain is not None:
            assert not type(chain).__module__.startswith("obstore")
            chain = chain.__cause__ or chain.__context__


# --- what is imported -------------------------------------------------------------------------------------------------

READS = """
import sys
from pz_core.contract import ConnectionConfig, ReadSpec, Secret, resolved_scan
from pz_s3.connector import S3
import pz_s3.faults
root, endpoint, key, secret, base = sys.argv[1:]
given = {"root": root, "endpoint": endpoint, "use_ssl": False, "access_key": Secret(key), "secret_key": Secret(secret)}
source = S3(ConnectionConfig("lake", "s3", given, base)).open_source()
for path in ("t.parquet", "t.csv"):
    assert resolved_scan(source, ReadSpec("t", {"path": path})) is not None
source.close()
print({m.split(".")[0] for m in sys.modules} & {"botocore", "boto3", "urllib3", "obstore"})
"""


def test_a_read_with_given_keys_needs_no_botocore(s3: Any, tmp_path: Path) -> None:
    s3.put("t.csv", "id\n1\n")
    duckdb.execute(f"COPY (SELECT 1 AS id) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
    s3.put("t.parquet", (tmp_path / "t.parquet").read_bytes())
    arguments = [s3.bucket, s3.endpoint, s3.key, s3.secret, str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", READS, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "{'obstore'}", done.stderr
