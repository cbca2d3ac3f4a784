"""``pz run --until-caught-up``: run after run, until every window with an end has come to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pz_core.cli import output

if TYPE_CHECKING:
    from pz_core.cli.execution import Prepared
    from pz_core.run.execute import RunResult


def until_caught_up(
    prepare: Callable[[], Prepared], carry_out: Callable[[Prepared, bool], RunResult | None], max_runs: int
) -> int:
    """Repeat whole runs, each with an id of its own, and say at the end how many there were and why no more.

    A pass that fails ends it with its exit code. So does one after which a window stays where it was: the next pass
    would deliver the same rows again.

    Args:
        prepare: settles a run.
        carry_out: executes and reports a run; told whether it is the first.
        max_runs: limit of passes.

    Returns:
        The exit code of the last pass; 1 if the limit or a standstill came before the end of a window.
    """
    passes = 0
    while True:
        prepared = prepare()
        result = carry_out(prepared, passes == 0)
        passes += 1
        if result is None:
            return 0
        if result.exit_code:
            return _end(passes, f"it ended with exit code {result.exit_code}", result.exit_code)
        ends = {node.name: node.caught_up for node in result.nodes if node.caught_up is not None}
        open_ends = sorted(name for name, caught_up in ends.items() if not caught_up)
        if not open_ends:
            reason = "all windows have come to their end" if ends else "no dataset of it has a window with until:"
            return _end(passes, reason if passes == 1 or ends else "nothing more is left to read", 0)
        moved = {prepared.plan.graph.node(node.id).name for node in result.nodes if _settled(prepared, result, node.id)}
        still = [name for name in open_ends if name not in moved]
        if still:
            return _end(passes, f"{', '.join(still)} did not move on, and a further run would read the same rows", 1)
        if passes >= max_runs:
            return _end(passes, f"--max-runs {max_runs} is reached, and {', '.join(open_ends)} has more to read", 1)


def _settled(prepared: Prepared, result: RunResult, node_id: str) -> bool:
    return getattr(prepared.plan.graph.node(node_id), "dataset", None) in result.settled


def _end(passes: int, reason: str, code: int) -> int:
    output.note(f"{passes} {'pass' if passes == 1 else 'passes'}: {reason}")
    return code
