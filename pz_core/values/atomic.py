"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


def write_whole(path: Path, text: str, *, durable: bool = False, mode: int = 0o666) -> None:
    """Replace a file's content at once: a reader sees the old text or the new one, never a part.

    Two writers at once both succeed, the later rename wins. Missing parent folders are made.

    Args:
        path: the file.
        text: its new content, written as UTF-8 with the line ends it has.
        durable: wait until the content is on the disk, so that it outlives a power cut.
        mode: permissions of the new file, less what the process's mask takes away.

    Raises:
        OSError: if it cannot be written; the old file is then untouched and no temporary file is left.
    """
    # Plain system calls: a compile writes thousands of small files, and a file object costs more than the file.
    data = memoryview(text.encode())
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")  # noqa: PTH118
    try:
        file = os.open(temporary, _FLAGS, mode)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(temporary, _FLAGS, mode)
    try:
        try:
            while data:
                data = data[os.write(file, data) :]
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, path)  # noqa: PTH105
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
