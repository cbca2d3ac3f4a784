"""The entry point ``pz``: finds the verb, runs it, turns whatever goes wrong into one line a fault and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from pz_core import __version__

#: Set by the shell that asks for completions; its value says how to answer.
COMPLETE_VARIABLE = "_PZ_COMPLETE"

#: New objects before Python looks for cycles. Its own 700 has it look a hundred times while a verb is being imported,
#: whose classes and functions all stay.
_COLLECT_AFTER = 50_000


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code (0, 1, 2 or 3)."""
    gc.set_threshold(_COLLECT_AFTER)
    code = invoke(sys.argv[1:] if argv is None else argv)
    # Else Python takes every object apart that the end of the process frees anyway: a tenth of a second.
    gc.disable()
    gc.freeze()
    sys.exit(code)


def invoke(argv: Sequence[str]) -> int:
    """Run the command line.

    Args:
        argv: what stands after ``pz``.

    Returns:
        The exit code: 0 all went well, 1 a node failed, 2 wrong usage or configuration, 3 a fatal fault or a
        cancellation.
    """
    from pz_core.render.stream import emit, flush_all, prepare_streams

    prepare_streams()
    if list(argv) == ["--version"]:  # answered before anything is imported, click included
        emit(f"pz {__version__}")
        return 0
    try:
        from pz_core.cli.app import cli

        instruction = os.environ.get(COMPLETE_VARIABLE)
        if instruction:
            from pz_core.cli.completion import answer

            return answer(cli, instruction)
        # Not click's own main(): it would swallow a closed pipe and Ctrl-C in its own ways.
        with cli.make_context("pz", list(argv)) as context:
            code = cli.invoke(context)
        flush_all()
    except BaseException as error:  # noqa: BLE001 - the one place where every fault becomes a line and an exit code
        return _ended_by(error, argv)
    return code if isinstance(code, int) else 0


def _ended_by(error: BaseException, argv: Sequence[str]) -> int:
    try:
        from pz_core.cli.failures import report
    except BaseException:
        if not isinstance(error, KeyboardInterrupt):
            raise
        # Ctrl-C came in the middle of an import, and what was half imported cannot be had again.
        from pz_core.render.stream import emit

        emit("error: cancelled", err=True)
        return 3
    return report(error, argv)
