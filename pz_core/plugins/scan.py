"""Which installed distributions have entry points of the group ``pz``.

Every command that opens a project asks this, so it reads as little as it can: folder listings, and of the
distributions that have an ``entry_points.txt`` that file. Metadata is read only of those that belong to pz.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from pz_core.plugins.offers import GROUP, normalised

if TYPE_CHECKING:
    from importlib_metadata import Distribution

_METADATA_FOLDER = re.compile(r"(?P<name>[^-]+)(-(?P<version>.+?))?(-py\d.*)?\.(dist-info|egg-info)")


class Installed(Struct, frozen=True):
    """A distribution on the path, with its entry points of the group ``pz`` (none, if it is no plugin)."""

    name: str
    version: str
    path: str
    entry_points: tuple[tuple[str, str], ...] = ()


def installed(path: Iterable[str] | None = None) -> Iterator[Installed]:
    """Distributions in the order of the path.

    Args:
        path: folders to look into; Python's own by default.
    """
    seen: set[str] = set()
    for entry in sys.path if path is None else path:
        folder = os.path.realpath(entry or os.curdir)
        if folder in seen:
            continue  # lib64 is often a link to lib
        seen.add(folder)
        try:
            with os.scandir(folder) as entries:
                names = sorted(found.name for found in entries if found.name.endswith((".dist-info", ".egg-info")))
        except NotADirectoryError:
            yield from _archived(folder)
            continue
        except OSError:
            continue
        for name in names:
            yield _described(folder, name)


def described(distributions: Iterable[Distribution]) -> Iterator[Installed]:
    """The same of distributions that somebody else found."""
    for found in distributions:
        metadata = found.metadata
        name = (metadata["Name"] if metadata else None) or "unknown"
        version = (metadata["Version"] if metadata else None) or "unknown"
        points = tuple((p.name, p.value) for p in found.entry_points if p.group == GROUP)
        yield Installed(normalised(name), version, str(found.locate_file("")), points)


def _archived(path: str) -> Iterator[Installed]:
    """Distributions in a zip file on the path."""
    import zipfile

    if zipfile.is_zipfile(path):
        from importlib_metadata import DistributionFinder, MetadataPathFinder

        context: DistributionFinder.Context = DistributionFinder.Context(path=[path])  # type: ignore[no-untyped-call]
        yield from described(MetadataPathFinder.find_distributions(context))


def _described(folder: str, name: str) -> Installed:
    found = _METADATA_FOLDER.fullmatch(name)
    short, version = (found["name"], found["version"] or "unknown") if found else (name.rpartition(".")[0], "unknown")
    points = _entry_points(_text(folder, name, "entry_points.txt"))
    if points:
        headers = _headers(_text(folder, name, "METADATA") or _text(folder, name, "PKG-INFO"))
        short, version = headers.get("name", short), headers.get("version", version)
    return Installed(normalised(short), version, folder, points)


def _text(*parts: str) -> str:
    try:
        return Path(*parts).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _entry_points(text: str) -> tuple[tuple[str, str], ...]:
    """Names and values of the group ``pz``; a line that is neither is kept as a name without a value."""
    if GROUP not in text:
        return ()
    found: list[tuple[str, str]] = []
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith(("#", ";")):
            continue
        if line.startswith("[") and line.endswith("]"):
            inside = line == f"[{GROUP}]"
        elif inside:
            name, _, value = line.partition("=")
            found.append((name.strip(), value.strip()))
    return tuple(dict.fromkeys(found))


def _headers(text: str) -> dict[str, str]:
    made: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            break
        key, colon, value = line.partition(":")
        if colon and key.strip().lower() in ("name", "version"):
            made.setdefault(key.strip().lower(), value.strip())
    return {key: value for key, value in made.items() if value}
