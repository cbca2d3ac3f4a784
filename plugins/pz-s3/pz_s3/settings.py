"""A connection's options as the rest of the package needs them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from msgspec import field

from pz_core.contract.connector import ConnectionConfig
from pz_core.contract.secrets import Secret, reveal
from pz_core.errors import PzError
from pz_core.values import Value
from pz_core.values.discreet import Discreet

Style = Literal["path", "vhost"]
_SCHEME = re.compile(r"(https?)://", re.IGNORECASE)


class Settings(Discreet, frozen=True):
    """One connection.

    Args:
        name: of the connection, for messages.
        base_dir: absolute path of the project.
        root: ``bucket`` or ``bucket/prefix`` as written; empty without one.
        endpoint: ``host:port`` of the store; ``None`` for Amazon's own.
        tls: whether it is spoken to over TLS.
        style: where the bucket's name stands in addresses.
        region: as given; ``None`` to ask the environment.
        profile: section of the profile files; ``None`` for the usual one.
        anonymous: whether requests carry no credentials.
        keys: access key, secret key and session token, each where it is given.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"keys"})

    name: str
    base_dir: str
    root: str = ""
    endpoint: str | None = None
    tls: bool = True
    style: Style = "vhost"
    region: str | None = None
    profile: str | None = None
    anonymous: bool = False
    keys: Mapping[str, Secret] = field(default_factory=dict)

    @classmethod
    def of(cls, config: ConnectionConfig) -> Settings:
        """From a connection; faults between options are :func:`option_faults`'s."""
        given = config.options
        endpoint = _text(given.get("endpoint"))
        scheme = _SCHEME.match(endpoint or "")
        if endpoint is not None and scheme is not None:
            endpoint = endpoint[scheme.end() :]
        tls = scheme[1].lower() == "https" if scheme else given.get("use_ssl", True) is not False
        style = given.get("url_style", "vhost" if endpoint is None else "path")
        return cls(
            name=config.name,
            base_dir=config.base_dir,
            root=_root(given.get("root")),
            endpoint=endpoint.rstrip("/") if endpoint else None,
            tls=tls,
            style="path" if style == "path" else "vhost",
            region=_text(given.get("region")),
            profile=_text(given.get("profile")),
            anonymous=given.get("anonymous") is True,
            keys={
                name: _secret(given[name]) for name in ("access_key", "secret_key", "session_token") if name in given
            },
        )

    @property
    def address(self) -> str:
        """The store's address for a client and for messages; it holds no credential."""
        return f"{'https' if self.tls else 'http'}://{self.endpoint}" if self.endpoint else "Amazon S3"


def option_faults(config: ConnectionConfig) -> list[PzError]:
    """What is wrong between the options of a connection: PZ0301."""
    given, found = config.options, []

    def fault(message: str, hint: str) -> None:
        found.append(PzError("PZ0301", f"connection '{config.name}': {message}", hint=hint))

    if ("access_key" in given) != ("secret_key" in given):
        lacking = "secret_key" if "access_key" in given else "access_key"
        fault(f"option '{lacking}' is missing beside the other key", f"give '{lacking}' too, or neither of the two")
    if "session_token" in given and "access_key" not in given:
        fault("option 'session_token' stands without 'access_key'", "give the temporary keys that belong to the token")
    several = [name for name in ("access_key", "profile") if name in given]
    if given.get("anonymous") is True:
        several.append("anonymous")
    if len(several) > 1:
        listed = " and ".join(f"'{name}'" for name in several)
        fault(f"the options {listed} are two ways to say who asks", "keep one of them")
    endpoint = _text(given.get("endpoint")) or ""
    scheme = _SCHEME.match(endpoint)
    if scheme and "use_ssl" in given and given["use_ssl"] is not (scheme[1].lower() == "https"):
        fault(f"option 'endpoint' says {scheme[1].lower()} and 'use_ssl' says otherwise", "write endpoint: host:port")
    host = endpoint[scheme.end() :] if scheme else endpoint
    if "endpoint" in given and (not host.rstrip("/") or re.search(r"[/@?#\s]", host.rstrip("/"))):
        fault(
            "option 'endpoint' is no address of a store", "write host or host:port, without a path and without a user"
        )
    return found


def _text(value: Value | Secret | None) -> str | None:
    if value is None:
        return None
    return reveal(value) if isinstance(value, Secret) else str(value)


def _secret(value: Value | Secret) -> Secret:
    return value if isinstance(value, Secret) else Secret(str(value))


def _root(value: Value | Secret | None) -> str:
    text = _text(value) or ""
    return text.removeprefix("s3://").strip("/")
