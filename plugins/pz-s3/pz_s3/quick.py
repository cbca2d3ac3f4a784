"""Small questions of a read through obstore, which has asked before botocore would have begun.

It is used only where it is sure to ask and to answer as botocore does; whatever goes wrong is asked again through
botocore, whose faults are the ones to tell.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from pz_core.contract.secrets import reveal
from pz_s3.places import is_plain
from pz_s3.settings import Settings

#: Shorter than botocore's, which are waited for too where a store hangs.
_CONNECT_S = 5
_READ_S = 15
#: Variables that tell nothing beside keys and a region that are handed over; all others that begin so may tell more.
_KNOWN = frozenset(
    f"AWS_{name}"
    for name in (
        "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "REGION", "DEFAULT_REGION", "CA_BUNDLE", "EC2_METADATA_DISABLED"
    )
)  # fmt: skip
#: What names certificates to trust, to either library or to both.
_TRUST = ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
#: Regions below amazonaws.com, and buckets that are a part of the host's name and have no rules of their own.
_REGION = re.compile(r"(?!cn-)[a-z]{2}(-gov)?-[a-z]+-\d")
_HOSTED = re.compile(r"(?!.*--)[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")

Answer = TypeVar("Answer")


class Unsure(Exception):
    """Botocore is to be asked."""


def is_configured() -> bool:
    """Whether the environment or this machine may say more about AWS than who asks: that is botocore's to read."""
    named = any(name.upper().startswith("AWS_") and name not in _KNOWN for name in os.environ)
    return named or os.path.exists(os.path.expanduser("~/.aws"))  # noqa: PTH110, PTH111 - these never raise


class Quick:
    """One client's quick way. After its first fault there is none: the next one might take as long to fail.

    Args:
        settings: of the connection.
        region: tells the one in effect.
    """

    def __init__(self, settings: Settings, region: Callable[[], str]) -> None:
        self._settings = settings
        self._region = region
        self._stores: dict[str, Any] = {}
        self._failed = False

    def size(self, bucket: str, key: str) -> int | None:
        """Of an object by its exact key, ``None`` if it is not there.

        Raises:
            Unsure: if this cannot be told for sure.
        """

        def ask(store: Any) -> int | None:
            try:
                return int(store.head(key)["size"])
            except FileNotFoundError:
                return None

        return self._ask(bucket, key, ask)

    def head(self, bucket: str, key: str, count: int) -> bytes:
        """The first bytes of an object that is not empty.

        Raises:
            Unsure: if they cannot be had.
        """
        return self._ask(bucket, key, lambda store: bytes(store.get_range(key, start=0, end=count)))

    def close(self) -> None:
        """Give the connections back."""
        self._stores.clear()

    def _ask(self, bucket: str, key: str, question: Callable[[Any], Answer]) -> Answer:
        if is_plain(key) and not self._failed and self._is_simple():
            try:
                if bucket not in self._stores:
                    self._stores[bucket] = self._store(bucket)
                return question(self._stores[bucket])
            except Exception:  # noqa: BLE001 - botocore meets it again, and tells it
                self._failed = True
        raise Unsure

    def _is_simple(self) -> bool:
        """Whether nothing is to be regarded that the two libraries know in different ways."""
        settings = self._settings
        # It goes where a store redirects it to, and takes a token along.
        given = settings.anonymous or set(settings.keys) == {"access_key", "secret_key"}
        trusted = settings.tls and any(name in os.environ for name in _TRUST)
        return given and settings.profile is None and not (trusted or is_configured() or _has_proxies())

    def _store(self, bucket: str) -> Any:
        from obstore.store import S3Store

        settings, region = self._settings, self._region()
        config: dict[str, Any] = {"region": region, "endpoint": self._endpoint(bucket, region)}
        config["virtual_hosted_style_request"] = settings.style == "vhost"
        if settings.anonymous:
            config["skip_signature"] = True
        else:
            config["access_key_id"] = reveal(settings.keys["access_key"])
            config["secret_access_key"] = reveal(settings.keys["secret_key"])
        return S3Store(
            bucket,
            config=config,  # type: ignore[arg-type]
            client_options={
                "allow_http": not settings.tls,
                "connect_timeout": timedelta(seconds=_CONNECT_S),
                "read_timeout": timedelta(seconds=_READ_S),
                "timeout": timedelta(hours=1),  # of a whole answer; botocore has none
            },
            retry_config={"max_retries": 0},
        )

    def _endpoint(self, bucket: str, region: str) -> str:
        settings = self._settings
        if settings.endpoint is not None and settings.style == "path":
            return settings.address
        if settings.endpoint is not None or not (settings.tls and _REGION.fullmatch(region)):
            raise Unsure
        host = "s3.amazonaws.com" if region == "us-east-1" else f"s3.{region}.amazonaws.com"
        if settings.style == "path":
            return f"https://{host}"
        if not _HOSTED.fullmatch(bucket):
            raise Unsure
        return f"https://{bucket}.{host}"


def _has_proxies() -> bool:
    if sys.platform in ("darwin", "win32"):  # where the system has settings of its own
        from urllib.request import getproxies

        return bool(getproxies())
    return any(name.lower().endswith("_proxy") for name in os.environ)
