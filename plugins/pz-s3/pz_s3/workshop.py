"""Folders for files on their way: below the project's ``.pz/tmp``, one an attempt, cleared when their process is gone.

Beside a file that is being uploaded in parts stands a note of the upload, so that whoever clears up after a killed
process also discards its parts, which S3 keeps (and charges for) but shows to no reader.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from pz_core.values.processes import is_alive
from pz_s3.settings import Settings

_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_NOTES = "*.upload.json"
#: Stands for the process in the name of a folder that nobody works in any more.
_GONE = "gone"


class Upload(Struct, frozen=True):
    """A multipart upload that somebody began."""

    bucket: str
    key: str
    id: str


def new_folder(settings: Settings) -> Path:
    """An empty folder of this process for one attempt of one connection; the caller removes it.

    Raises:
        OSError: if it cannot be made.
    """
    base = _base(settings)
    base.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{_stem(settings)}-{_HOST}.{os.getpid()}-", dir=base))


def planned_folder(settings: Settings) -> Path:
    """How :func:`new_folder` would name it, for a plan."""
    return _base(settings) / _stem(settings)


def note(folder: Path, upload: Upload) -> None:
    """Remember an upload in the folder of its attempt."""
    text = json.dumps({"bucket": upload.bucket, "key": upload.key, "id": upload.id})
    _note(folder, upload.id).write_text(text, encoding="utf-8")


def forget(folder: Path, upload_id: str) -> None:
    """Take the note of an upload away: nothing of it is left in the store."""
    _note(folder, upload_id).unlink(missing_ok=True)


def leave(folder: Path) -> None:
    """End an attempt: its folder goes. Where a note is left only that stays, for the next attempt to find."""
    if not any(folder.glob(_NOTES)):
        remove(folder)
        return
    for path in folder.iterdir():
        if not path.match(_NOTES):
            remove(path) if path.is_dir() else path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rename(re.sub(rf"-{_HOST}\.\d+-(?=[^-]*$)", f"-{_HOST}.{_GONE}-", str(folder)))


def abandoned(settings: Settings) -> Iterator[tuple[Path, tuple[Upload, ...]]]:
    """Folders of this connection whose process is gone from this machine, each with the uploads noted in it."""
    shape = re.compile(rf"{re.escape(_stem(settings))}-{_HOST}\.(\d+|{_GONE})-.+")
    try:
        entries = sorted(_base(settings).iterdir())
    except OSError:
        return
    for path in entries:
        match = shape.fullmatch(path.name)
        gone = match is not None and (match[1] == _GONE or not is_alive(int(match[1])))
        if gone and path.is_dir() and not path.is_symlink():
            yield path, tuple(_uploads(path))


def remove(folder: Path) -> None:
    """Remove a folder and all in it; what cannot be removed is left to the next attempt."""
    shutil.rmtree(folder, ignore_errors=True)


def _uploads(folder: Path) -> Iterator[Upload]:
    for path in folder.glob(_NOTES):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            yield Upload(str(found["bucket"]), str(found["key"]), str(found["id"]))


def _note(folder: Path, upload_id: str) -> Path:
    return folder / f"{zlib.crc32(upload_id.encode()):08x}.upload.json"


def _base(settings: Settings) -> Path:
    return Path(os.path.abspath(settings.base_dir)) / ".pz" / "tmp"  # noqa: PTH100 - resolve() would follow links


def _stem(settings: Settings) -> str:
    return f"s3-{hashlib.sha256(settings.name.encode()).hexdigest()[:10]}"
