"""What escapes as an ordinary exception, turned into a coded error. Classified by type, never by text."""

from __future__ import annotations

import errno

from pz_core.errors import PzError, Where

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
    if isinstance(error, PermissionError):
        return PzError(
            "PZ0531", f"no permission for '{path}'", hint="check the rights of the project and of .pz", cause=error
        )
    return None


def unexpected(error: BaseException) -> PzError:
    """The coded error for an exception that nobody expected. Its text may hold values, so only its type is told."""
    known = io_fault(error)
    if known is not None:
        return known
    if isinstance(error, PzError):
        return error
    return PzError(
        "PZ0500",
        f"internal error: {type(error).__name__}",
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
        f"the node failed with {type(error).__name__}",
        where=where,
        hint="set PZ_DEBUG=1 for the details and report this",
        cause=error,
    )
