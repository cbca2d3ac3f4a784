"""Turns whatever a verb raised into lines on stderr and an exit code. Never a traceback, unless ``PZ_DEBUG`` asks."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
import click.utils

from pz_core.cli import output
from pz_core.errors import PzError, PzErrors, without_withheld
from pz_core.render.stream import forget_stdout

USAGE = 2
FATAL = 3

#: Faults of the machine or of pz itself, not of what the user wrote.
_FATAL_CODES = frozenset({"PZ0500", "PZ0531", "PZ0532", "PZ0533"})
_FULL = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
#: A file stands where a folder is needed, or the other way round.
_MISPLACED = frozenset({errno.ENOTDIR, errno.EISDIR, errno.EEXIST})
_SHARING_VIOLATIONS = frozenset({32, 33})


class CancelledBeforeRun(BaseException):
    """The user stopped a run before any node had started."""


def report(error: BaseException, argv: Sequence[str]) -> int:
    """Print a fault and say with which code to exit.

    Args:
        error: what was raised.
        argv: the arguments, to know whether a JSON document is expected on stdout.
    """
    if isinstance(error, BrokenPipeError) and _from_click(error):
        forget_stdout()
        return 0  # pz --help | head: the reader has what it wanted
    try:
        return _report(error, output.wants_json(argv))
    except OSError:
        return FATAL  # nobody can be told any more


def _report(error: BaseException, as_json: bool) -> int:
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, (KeyboardInterrupt, click.Abort, CancelledBeforeRun)):
        early = isinstance(error, CancelledBeforeRun)
        message = "cancelled before any node started" if early else "cancelled"
        output.tell(f"error: {message}")
        _document(as_json, [{"message": message}])
        return FATAL
    if isinstance(error, click.ClickException):
        return _usage(error, as_json)
    if isinstance(error, PzErrors):
        output.tell_notices(error.notices)
        faults = error.errors
    else:
        faults = (error if isinstance(error, PzError) else from_exception(error),)
    for fault in faults:
        output.tell(fault.render())
    _debug(error)
    _document(as_json, [fault.as_dict() for fault in faults])
    return FATAL if any(fault.code in _FATAL_CODES for fault in faults) else USAGE


def _usage(error: click.ClickException, as_json: bool) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        output.say_all(error.format_message().splitlines())
        return USAGE
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "pz"
    message = error.format_message()
    output.tell(f"error: {' '.join(message.split())} - hint: {path} --help")
    _document(as_json, [{"message": message, "hint": f"{path} --help"}])
    return USAGE


def _document(as_json: bool, errors: list[dict[str, object]]) -> None:
    if as_json:
        output.say_json({"errors": errors})


def _debug(error: BaseException) -> None:
    if os.environ.get("PZ_DEBUG", "") in ("", "0") or isinstance(error, PzErrors):
        return
    shown = error.cause if isinstance(error, PzError) else error
    if shown is not None:
        for line in "".join(traceback.format_exception(shown)).splitlines():
            output.tell(without_withheld(line))


def from_exception(error: BaseException) -> PzError:
    """The coded error of an exception that nobody foresaw, told by its type, never by its text.

    The text of a foreign exception may hold a value or a secret, so it is not shown.
    """
    if isinstance(error, OSError):
        known = _of_machine(error)
        if known is not None:
            return known
    return PzError(
        "PZ0500",
        f"internal error: {_kind(error)}{_place(error)}",
        hint="please report this; PZ_DEBUG=1 adds the stack trace",
        cause=error,
    )


def _kind(error: BaseException) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__name__ if not number else f"{type(error).__name__} ({os.strerror(number)})"


def _from_click(error: BaseException) -> bool:
    """Whether printing help has failed; all other output goes through ``emit``, which minds closed pipes itself."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename) == Path(click.utils.__file__)


def _of_machine(error: OSError) -> PzError | None:
    if error.errno == errno.ENOENT and error.filename is None:  # only asking for the current folder fails like that
        hint = "change into a folder that exists"
        return PzError("PZ0531", "the current folder is not there any more", hint=hint, cause=error)
    path = _named(error)
    if getattr(error, "winerror", None) in _SHARING_VIOLATIONS:
        return PzError(
            "PZ0533",
            f"another process holds {path}",
            hint="close the program that has it open, then run the command again",
            cause=error,
        )
    if error.errno in _DENIED:
        hint = "give this user the right to read and write there"
        return PzError("PZ0531", f"access denied to {path}", hint=hint, cause=error)
    if error.errno in _MISPLACED:
        message = f"{path} cannot be used: a file stands where a folder is needed, or a folder where a file is"
        hint = "move away what stands there; pz makes .pz and the folders in it by itself"
        return PzError("PZ0531", message, hint=hint, cause=error)
    if error.errno in _FULL:
        hint = "free some space or move the project; pz clean removes staging files of past runs"
        return PzError("PZ0532", f"no space left on the disk for {path}", hint=hint, cause=error)
    return None


def _named(error: OSError) -> str:
    if error.filename is None:
        return "a file or stream"
    path = Path(os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else str(error.filename))
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):
        return str(path)


def _place(error: BaseException) -> str:
    """`` at pz_core/compile/graph.py:120``: the innermost line of pz's own, for a report."""
    package = Path(__file__).resolve().parent.parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        try:
            inside = Path(frame.filename).resolve().relative_to(package.parent)
        except ValueError:
            continue
        if inside.parts[0] == package.name:
            return f" at {inside.as_posix()}:{frame.lineno}"
    return ""
