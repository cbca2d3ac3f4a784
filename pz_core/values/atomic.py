"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole(path: Path, text: str, *, durable: bool = False) -> None:
    """Replace a file's content at once: a reader sees the old text or the new one, never a part.

    Two writers at once both succeed, the later rename wins. Missing parent folders are made.

    Args:
        path: the file.
        text: its new content, written as UTF-8 with the line ends it has.
        durable: wait until the content is on the disk, so that it outlives a power cut.

    Raises:
        OSError: if it cannot be written; the old file is then untouched and no temporary file is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
