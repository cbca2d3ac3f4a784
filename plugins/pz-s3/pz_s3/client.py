"""The store, spoken to through botocore: every request signed, none repeated (the engine repeats whole attempts).

Small questions of a read may go through obstore, see :mod:`pz_s3.quick`.
"""

from __future__ import annotations

import contextlib
import io
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from pz_core.contract.secrets import Secret, reveal
from pz_s3.faults import Stopped, is_missing
from pz_s3.quick import Quick, Unsure, is_configured
from pz_s3.settings import Settings

_CONNECT_S = 10
_READ_S = 60
#: Parts sent at once; each is held in memory while it travels.
LANES = 4
#: A file up to this size is one request; what is longer goes in parts of at least this size.
PART_BYTES = 16 * 1024 * 1024
_MOST_PARTS = 10_000
_CHUNK = 1024 * 1024
_DEFAULT_REGION = "us-east-1"


class Found(Struct, frozen=True):
    """An object in a listing: its key and its size in bytes."""

    key: str
    size: int


class Keys(Struct, frozen=True):
    """Credentials of this moment; the token is ``None`` for keys that last."""

    access: Secret
    secret: Secret
    token: Secret | None


_sessions: dict[tuple[Any, ...], Any] = {}
_sessions_lock = threading.Lock()


def _session(profile: str | None) -> Any:
    """The session of a profile.

    It reads the descriptions of the service, which takes longer than a small transfer, and keeps credentials that renew
    themselves: so there is one as long as the environment stays what it is.
    """
    from botocore.session import Session

    told = tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))
    key = (profile, os.environ.get("HOME"), told)
    with _sessions_lock:
        if key not in _sessions:
            for other in [one for one in _sessions if one[1:] != key[1:]]:
                del _sessions[other]
            _sessions[key] = Session(profile=profile)
        return _sessions[key]


class Client:
    """One connection's way to its store. Made when first needed; its calls may come from any thread.

    Faults are botocore's own; :func:`~pz_s3.faults.told` makes coded ones of them.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._made: Any = None
        self._quick = Quick(settings, self.region)

    def region(self) -> str:
        """The region in effect: the option's, the environment's or profile's, else ``us-east-1``."""
        region = self.settings.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region and (self.settings.profile is not None or is_configured()):
            region = self._own_session().get_config_variable("region")
        return str(region or _DEFAULT_REGION)

    def keys(self) -> Keys | None:
        """The credentials in effect, renewed if they are temporary and due; ``None`` where none are sent."""
        given = self.settings.keys
        if self.settings.anonymous:
            return None
        if "access_key" in given:
            return Keys(given["access_key"], given["secret_key"], given.get("session_token"))
        found = self._own_session().get_credentials()
        if found is None:
            from botocore.exceptions import NoCredentialsError

            raise NoCredentialsError
        frozen = found.get_frozen_credentials()
        return Keys(
            Secret(frozen.access_key), Secret(frozen.secret_key), Secret(frozen.token) if frozen.token else None
        )

    def listing(self, bucket: str, prefix: str) -> Iterator[Found]:
        """All objects whose keys begin with a text, in the order of the store; folder markers are left out."""
        pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        for page in pages:
            for item in page.get("Contents", []):
                if not item["Key"].endswith("/"):
                    yield Found(item["Key"], int(item["Size"]))

    def reach(self, bucket: str, prefix: str) -> None:
        """Ask for one key, to see whether the bucket is there and may be listed."""
        self._client().list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)

    def object(self, bucket: str, key: str) -> Found | None:
        """One object by its exact key, ``None`` if it is not there."""
        with contextlib.suppress(Unsure):
            size = self._quick.size(bucket, key)
            return None if size is None else Found(key, size)
        from botocore.exceptions import ClientError

        try:
            answer = self._client().head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if is_missing(error):
                return None
            self.reach(bucket, key)  # the answer to a HEAD has no body, so it cannot say why; this one's can
            raise
        return Found(key, int(answer["ContentLength"]))

    @contextlib.contextmanager
    def reading(self, bucket: str, key: str, first: int | None = None) -> Iterator[Any]:
        """The body of an object, or its first bytes, as a file to read from once. An empty object has no ranges."""
        if first is not None:
            head = None
            with contextlib.suppress(Unsure):
                head = self._quick.head(bucket, key, first)
            if head is not None:
                yield io.BytesIO(head)
                return
        more = {} if first is None else {"Range": f"bytes=0-{first - 1}"}
        body = self._client().get_object(Bucket=bucket, Key=key, **more)["Body"]
        with contextlib.closing(body):
            yield body

    def download(self, bucket: str, key: str, path: Path, stopped: Callable[[], bool]) -> None:
        """Write an object to a file of this machine.

        Raises:
            Stopped: if told so.
        """
        with self.reading(bucket, key) as body, path.open("wb") as file:
            for chunk in body.iter_chunks(_CHUNK):
                if stopped():
                    raise Stopped
                file.write(chunk)

    def upload(
        self,
        path: Path,
        bucket: str,
        key: str,
        stopped: Callable[[], bool],
        begun: Callable[[str], None] = lambda upload: None,
        ended: Callable[[str], None] = lambda upload: None,
    ) -> None:
        """Make an object of a file: not there, or the old one, until the last byte has arrived; then whole.

        Args:
            path: the file.
            bucket: of the object.
            key: of the object, byte for byte.
            stopped: asked between two parts.
            begun: told the id of a multipart upload before its first part is sent.
            ended: told it when the upload is complete, or its parts are discarded. It is not told where the store did
                not answer to that: then they may still be there.

        Raises:
            Stopped: if told so.
        """
        size = path.stat().st_size
        if stopped():
            raise Stopped
        if size <= PART_BYTES:
            with path.open("rb") as file:
                self._client().put_object(Bucket=bucket, Key=key, Body=file, ContentLength=size)
            return
        client = self._client()
        upload: str = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        try:
            begun(upload)
            parts = self._send(path, size, bucket, key, upload, stopped)
            if stopped():
                raise Stopped
            client.complete_multipart_upload(
                Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": list(parts)}
            )
        except BaseException:
            with contextlib.suppress(Exception):  # the fault that led here is the one to tell
                self.abort(bucket, key, upload)
                ended(upload)
            raise
        ended(upload)

    def _send(
        self, path: Path, size: int, bucket: str, key: str, upload: str, stopped: Callable[[], bool]
    ) -> list[dict[str, Any]]:
        """All parts, a few at a time; after a fault none is begun, and those on their way are waited for."""
        from concurrent.futures import ThreadPoolExecutor

        part = max(PART_BYTES, -(-size // _MOST_PARTS))
        failed = threading.Event()
        client = self._client()

        def send(number: int) -> dict[str, Any]:
            if failed.is_set() or stopped():
                raise Stopped
            try:
                with path.open("rb") as file:
                    file.seek((number - 1) * part)
                    body = file.read(part)
                answer = client.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=body)
            except BaseException:
                failed.set()
                raise
            return {"PartNumber": number, "ETag": answer["ETag"]}

        with ThreadPoolExecutor(LANES, thread_name_prefix="pz-s3") as pool:
            futures = [pool.submit(send, number) for number in range(1, -(-size // part) + 1)]
        faults = [fault for future in futures if (fault := future.exception()) is not None]
        if faults:
            raise next((fault for fault in faults if not isinstance(fault, Stopped)), faults[0])
        return [future.result() for future in futures]

    def abort(self, bucket: str, key: str, upload: str) -> None:
        """Discard the parts of an upload; one that is no longer there is no fault."""
        from botocore.exceptions import ClientError

        try:
            self._client().abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in ("NoSuchUpload", "404"):
                raise

    def delete(self, bucket: str, keys: Iterable[str]) -> None:
        """Remove objects one by one: not every store takes lists, and those to remove are few."""
        for key in keys:
            self._client().delete_object(Bucket=bucket, Key=key)

    def prepare(self) -> None:
        """Begin to make the client, which takes longer than a small transfer. A fault is told by who needs it."""

        def work() -> None:
            with contextlib.suppress(Exception):
                self._client()

        threading.Thread(target=work, name="pz-s3-client", daemon=True).start()

    def close(self) -> None:
        """Close the connections to the store; a call after this makes new ones."""
        self._quick.close()
        with self._lock:
            if self._made is not None:
                self._made.close()
                self._made = None

    def _own_session(self) -> Any:
        return _session(self.settings.profile)

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                session, region = self._own_session(), self.region()
                with _sessions_lock:  # a session makes one client at a time
                    self._made = session.create_client(
                        "s3",
                        region_name=region,
                        endpoint_url=self.settings.address if self.settings.endpoint else None,
                        use_ssl=self.settings.tls,
                        config=self._config(),
                        **self._explicit(),
                    )
            return self._made

    def _explicit(self) -> dict[str, str | None]:
        given = self.settings.keys
        if "access_key" not in given:
            return {}
        token = given.get("session_token")
        return {
            "aws_access_key_id": reveal(given["access_key"]),
            "aws_secret_access_key": reveal(given["secret_key"]),
            "aws_session_token": reveal(token) if token is not None else None,
        }

    def _config(self) -> Any:
        from botocore import UNSIGNED
        from botocore.config import Config

        more: dict[str, Any] = {"signature_version": UNSIGNED} if self.settings.anonymous else {}
        checksums = "when_required" if self.settings.endpoint else "when_supported"
        return Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_READ_S,
            retries={"total_max_attempts": 1, "mode": "standard"},
            s3={"addressing_style": "path" if self.settings.style == "path" else "virtual"},
            max_pool_connections=2 * LANES,
            # A project says where its stores are; the environment may only say who asks.
            ignore_configured_endpoint_urls=True,
            # Other stores than Amazon's may know no trailing checksums.
            request_checksum_calculation=checksums,
            response_checksum_validation=checksums,
            **more,
        )
