"""DuckDB's own way to S3: the extension from its pinned package, a secret, and addresses that it reads right.

Secrets belong to a whole DuckDB, and it chooses among them by how an address begins. Two connections may well lead to
buckets of one name, with other keys or in other stores; each gets a way of writing the address of its own, of which
DuckDB knows three.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pz_core.contract.connector import ConnectorError, Setup
from pz_core.contract.extensions import loading, planned_loading
from pz_core.contract.files import private_database
from pz_core.contract.secrets import reveal
from pz_core.values import quote_identifier, quote_literal
from pz_s3.client import Client
from pz_s3.places import Place

if TYPE_CHECKING:
    import duckdb

_SCHEMES = ("s3", "s3a", "s3n")
_lock = threading.Lock()
_claims: dict[tuple[str, str], list[str]] = {}


def scheme(client: Client, bucket: str) -> str | None:
    """How this connection writes the addresses of a bucket, ``None`` if three others of the project have them all."""
    settings = client.settings
    with _lock:
        names = _claims.setdefault((settings.base_dir, bucket), [])
        if settings.name not in names:
            if len(names) >= len(_SCHEMES):
                return None
            names.append(settings.name)
        return _SCHEMES[names.index(settings.name)]


def address(scheme_word: str, place: Place) -> str:
    """A place as DuckDB opens it."""
    return f"{scheme_word}://{place.bucket}/{place.key}"


def setup(client: Client, scheme_word: str, bucket: str) -> tuple[Setup, ...]:
    """What a DuckDB needs to read a bucket.

    Raises:
        ConnectorError: PZ0311 if the extension's package is not there.
        botocore.exceptions.BotoCoreError: if there are no credentials.
    """
    settings, keys = client.settings, client.keys()
    name = f"pz_s3_{_digest(settings.name)}_{scheme_word}_{_digest(bucket)}"
    parts = {
        "TYPE": "s3",
        "PROVIDER": "config",
        "SCOPE": quote_literal(f"{scheme_word}://{bucket}/"),
        "REGION": quote_literal(client.region()),
        "URL_STYLE": quote_literal(settings.style),
        "USE_SSL": str(settings.tls).lower(),
    }
    if keys is not None:
        parts["KEY_ID"] = quote_literal(reveal(keys.access))
        parts["SECRET"] = quote_literal(reveal(keys.secret))
        if keys.token is not None:
            parts["SESSION_TOKEN"] = quote_literal(reveal(keys.token))
    if settings.endpoint is not None:
        parts["ENDPOINT"] = quote_literal(settings.endpoint)
    listed = ", ".join(f"{word} {value}" for word, value in parts.items())
    return (
        loading("httpfs", otherwise="set engine.force_universal: true"),
        Setup(f"CREATE OR REPLACE TEMPORARY SECRET {quote_identifier(name)} ({listed})", "secret"),
    )


class _Reader(Struct):
    """A database that looks at objects, and the statements that it has run, by what they make."""

    database: duckdb.DuckDBPyConnection
    ran: dict[str, str] = field(default_factory=dict)


_MOST_READERS = 4
_readers_lock = threading.Lock()
_readers: dict[str, _Reader] = {}


def reader(base_dir: str, statements: Sequence[Setup]) -> duckdb.DuckDBPyConnection:
    """A connection to look at objects with; the caller closes it.

    All sources of a project share one database behind it, since making one takes longer than a look.

    Args:
        base_dir: of the project.
        statements: what :func:`setup` gave for the bucket.

    Raises:
        ConnectorError: PZ0311 if a statement fails.
    """
    import duckdb

    with _readers_lock:
        one = _readers.pop(base_dir, None) or _Reader(private_database(load=planned_loading("httpfs")))
        _readers[base_dir] = one
        while len(_readers) > _MOST_READERS:
            del _readers[next(iter(_readers))]  # connections that are still open keep theirs
        for statement in statements:
            made = statement.sql.partition("(")[0]
            if one.ran.get(made) == statement.sql:
                continue
            try:
                one.database.execute(statement.sql)
            except duckdb.Error as error:  # its text repeats the statement, which may hold keys
                raise ConnectorError(
                    f"DuckDB could not be prepared to read from S3: a statement of kind '{statement.kind}' failed with "
                    f"{type(error).__name__}",
                    code="PZ0311",
                    hint=f"reinstall duckdb-extension-httpfs=={duckdb.__version__}, "
                    "or set engine.force_universal: true",
                ) from None
            one.ran[made] = statement.sql
        return one.database.cursor()


def load_ahead(base_dir: str) -> None:
    """Begin to load the extension for :func:`reader`, while the store is asked; that tells a fault of it."""

    def work() -> None:
        with contextlib.suppress(Exception):
            reader(base_dir, ()).close()

    if base_dir not in _readers:
        threading.Thread(target=work, name="pz-s3-load").start()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
