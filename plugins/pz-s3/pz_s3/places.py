"""Where objects are: bucket and key of a read or a write, and what a pattern means. Keys are kept byte for byte."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.files import format_of_path
from pz_core.values import Value
from pz_s3.settings import Settings

_WILD = re.compile(r"[*?\[]")
#: The characters that a bucket's name may have; all else would end up in some other part of an address.
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


class Place(Struct, frozen=True):
    """A place in a bucket.

    Args:
        bucket: its name.
        key: a key, a pattern, or a prefix.
    """

    bucket: str
    key: str

    @property
    def shown(self) -> str:
        """The place for messages."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def wild(self) -> bool:
        """Whether the key has a character that a pattern has."""
        return _WILD.search(self.key) is not None

    @property
    def fixed(self) -> str:
        """The part of the key before its first wildcard."""
        found = _WILD.search(self.key)
        return self.key if found is None else self.key[: found.start()]


def source_place(settings: Settings, entity: str, options: Mapping[str, Value], path: str | None, ending: str) -> Place:
    """The place of a read: ``<root>/<entity>.<format>`` without a ``path``.

    Args:
        settings: of the connection.
        entity: its name.
        options: of the read.
        path: of the read, its calendar tokens replaced.
        ending: of the file's name, without a path.

    Raises:
        ConnectorError: PZ0353 without a bucket, PZ0365 for a path with ``..``.
    """
    return _place(settings, entity, options, f"{entity}.{ending}" if path is None else path)


def target_folder(settings: Settings, entity: str, options: Mapping[str, Value]) -> Place:
    """The folder of a write, ``<root>/<entity>`` without a ``path``; its key has no slash at the end.

    Raises:
        ConnectorError: as :func:`source_place`.
    """
    path = options.get("path")
    place = _place(settings, entity, options, entity if path is None else str(path))
    return Place(place.bucket, place.key.removesuffix("/"))


def stem_of(entity: str) -> str:
    """How the names of an entity's objects begin; in a key only a slash parts one name from another."""
    return entity.rstrip("/").rsplit("/", 1)[-1]


def below(folder: Place, name: str) -> Place:
    """A place directly in a folder."""
    return Place(folder.bucket, f"{folder.key}/{name}" if folder.key else name)


def is_plain(key: str) -> bool:
    """Whether DuckDB and obstore mean a key by its exact name: a question mark begins options, some fold the rest."""
    parts = key.split("/")
    odd = any(character in "?\\" or not character.isprintable() for character in key)
    return not odd and all(part not in ("", ".", "..") for part in parts)


def _place(settings: Settings, entity: str, options: Mapping[str, Value], path: str) -> Place:
    subject = f"{settings.name}.{entity}"
    bucket, _, prefix = settings.root.partition("/")
    own = options.get("bucket")
    if own is not None:
        bucket, prefix = str(own).removeprefix("s3://").strip("/"), ""
    if path.startswith("s3://"):
        named, _, path = path.removeprefix("s3://").partition("/")
        if own is not None and named != bucket:
            raise ConnectorError(
                f"{subject}: path: names another bucket than bucket: does",
                code="PZ0353",
                hint="leave bucket: out, or give the path without s3:// and its bucket",
            )
        bucket, prefix = named, ""
    elif path.startswith("/"):
        path, prefix = path[1:], ""
    if not bucket:
        raise ConnectorError(
            f"{subject}: neither root: of connection '{settings.name}' nor bucket: says which bucket is meant",
            code="PZ0353",
            hint="add root: <bucket> or <bucket>/<prefix> to the connection, or bucket: to the entity",
        )
    if not _BUCKET.fullmatch(bucket):
        raise ConnectorError(
            f"{subject}: '{bucket}' cannot be the name of a bucket",
            code="PZ0353",
            hint="a bucket's name has letters, digits, dots and hyphens; what follows a slash in root: is a prefix",
        )
    if any(part in (".", "..") for part in f"{prefix}/{path}".split("/")):
        raise ConnectorError(
            f"{subject}: path: has a part '.' or '..', which would leave the root of connection '{settings.name}'",
            code="PZ0365",
            hint="write the path from the root: downwards; in S3 a key has no folders to go up in",
        )
    return Place(bucket, f"{prefix}/{path}" if prefix else path)


def is_data(key: str, folder: str, file_format: str) -> bool:
    """Whether an object is a file of a format directly in a folder (a prefix that ends in a slash, or nothing)."""
    name = key[len(folder) :]
    return "/" not in name and not name.startswith(".") and format_of_path(name) == file_format


def matches(pattern: str, key: str) -> bool:
    """Whether a pattern means a key: ``*`` and ``?`` stop at slashes, a part ``**`` is any number of folders.

    Names that begin with a dot are not meant, unless the pattern names one.
    """
    if not any(part.startswith(".") for part in pattern.split("/")) and any(
        part.startswith(".") for part in key[len(_literal_folders(pattern)) :].split("/")
    ):
        return False
    return _compiled(pattern).fullmatch(key) is not None


def _literal_folders(pattern: str) -> str:
    """The folders before the first part with a wildcard: as the user wrote them, whatever they begin with."""
    found = _WILD.search(pattern)
    fixed = pattern if found is None else pattern[: found.start()]
    return fixed[: fixed.rfind("/") + 1]


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    made, parts = "", pattern.split("/")
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        if part == "**":
            made += ".*" if last else "(?:[^/]*/)*"
        else:
            made += _part(part) + ("" if last else "/")
    return re.compile(made, re.DOTALL)


def _part(part: str) -> str:
    made, at = "", 0
    while at < len(part):
        character = part[at]
        at += 1
        if character == "*":
            while at < len(part) and part[at] == "*":
                at += 1
            made += "[^/]*"
        elif character == "?":
            made += "[^/]"
        elif character == "[" and (end := part.find("]", at + (2 if part[at : at + 1] in ("!", "^") else 1))) > 0:
            inside = part[at:end]
            negated = inside[:1] in ("!", "^")
            made += _set(inside[1:] if negated else inside, negated)
            at = end + 1
        else:
            made += re.escape(character)
    return made


def _set(inside: str, negated: bool) -> str:
    body = re.sub(r"[\\\[\]^&~|]", lambda m: f"\\{m[0]}", inside)
    try:
        re.compile(f"[{body}]")
    except re.error:  # a range that runs backwards means nothing
        return "(?!)"
    return f"(?![/])[{'^' if negated else ''}{body}]"
