"""What escapes as an ordinary exception, turned into a coded error. Classified by type, never by text."""

from __future__ import annotations

import errno
import os

from pz_core.errors import PzError, Where

_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: A file stands where a folder is needed, or the other way round.
_MISPLACED = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST})
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_SHARING_VIOLATIONS = frozenset({32, 33})


def io_fault(error: BaseException) -> PzError | None:
    """PZ0531 (access denied), PZ0532 (disk full) or PZ0533 (file in use), ``None`` for anything else."""
    if not isinstance(error, OSError):
        return None
    path = error.filename if isinstance(error.filename, str) else "a file of the project"
    if getattr(error, "winerror", None) in _SHARING_VIOLATIONS:
        return PzError(
            "PZ0533", f"'{path}' is in use by another process", hint="close what uses it and run again", cause=error
        )
    if error.errno in _FULL:
        return PzError(
            "PZ0532", f"the disk is full: '{path}'", hint="free space (pz clean removes old runs)", cause=error
        )
    if isinstance(error, PermissionError) or error.errno in _DENIED:
        return PzError(
            "PZ0531", f"no permission for '{path}'", hint="check the rights of the project and of .pz", cause=error
        )
    if error.errno in _MISPLACED:
        return PzError(
            "PZ0531",
            f"'{path}' cannot be used: a file stands where a folder is needed, or a folder where a file is",
            hint="move away what stands there; pz makes .pz and the folders in it by itself",
            cause=error,
        )
    return None


def kind_of(error: BaseException) -> str:
    """The type of an exception, with the system's own words for a fault of the system; never its text."""
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__name__ if not number else f"{type(error).__name__} ({os.strerror(number)})"


def unexpected(error: BaseException) -> PzError:
    """The coded error for an exception that nobody expected. Its text may hold values, so only its type is told."""
    known = io_fault(error)
    if known is not None:
        return known
    if isinstance(error, PzError):
        return error
    return PzError(
        "PZ0500",
        f"internal error: {kind_of(error)}",
        hint="set PZ_DEBUG=1 for the details and report this",
        cause=error,
    )


def node_fault(error: BaseException, node: str) -> PzError:
    """The error of a failed node, with its name as the place."""
    where = Where(node=node)
    if isinstance(error, PzError):
        return PzError(error.code, error.message, where=where, hint=error.hint, cause=error.cause or error)
    known = io_fault(error)
    if known is not None:
        return known.at(where)
    return PzError(
        "PZ0501",
        f"the node failed with {kind_of(error)}",
        where=where,
        hint="set PZ_DEBUG=1 for the details and report this",
        cause=error,
    )
