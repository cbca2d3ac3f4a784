"""``pz run``: load, compile, check, bind, select, plan; then execute and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pz_core.cli.options import all_option, execution_options, project_options, select_option

if TYPE_CHECKING:
    from pz_core.compile.model import Graph
    from pz_core.run.execute import RunResult


@click.command()
@click.argument("names", nargs=-1)
@project_options
@select_option
@all_option
@click.option("--full-refresh", is_flag=True, help="Read everything, as if nothing had been read before.")
@click.option(
    "--until-caught-up",
    "repeat",
    is_flag=True,
    help="Run again and again until every window with until: has come to its end.",
)
@click.option(
    "--max-runs",
    metavar="N",
    type=click.IntRange(min=1),
    default=None,
    help="With --until-caught-up: at most so many runs (100).",
)
@execution_options
def run(
    names: tuple[str, ...],
    project: Path,
    vars_json: str | None,
    expression: str | None,
    all_: bool,
    full_refresh: bool,
    repeat: bool,
    max_runs: int | None,
    fail_fast: bool,
    log_format: str,
    no_lock_check: bool,
) -> int:
    """Read, transform and load.

    NAMES are nodes to run with all that they need and all that needs them. Without NAMES, --select and --all,
    a project with several independent flows is refused.
    """
    from pz_core.cli.execution import Prepared, before_any_node, perform, prepare

    if max_runs is not None and not repeat:
        raise click.UsageError("--max-runs goes with --until-caught-up")

    def choose(graph: Graph) -> frozenset[str]:
        from pz_core.compile.select import select

        return select(graph, names=names, expression=expression, all_=all_, gate=True)

    def settle() -> Prepared:
        with before_any_node():
            return prepare(
                project,
                vars_json,
                choose,
                narrow=bool(names) or expression is not None,
                skip_lock_check=no_lock_check,
            )

    def carry_out(prepared: Prepared, first: bool) -> RunResult | None:
        # Reading everything again is for the first pass: each later one goes on from there.
        anew = full_refresh and first
        return perform(prepared, fail_fast=fail_fast, full_refresh=anew, as_json=log_format == "json")

    if repeat:
        from pz_core.cli.passes import until_caught_up

        return until_caught_up(settle, carry_out, max_runs or 100)
    result = carry_out(settle(), True)
    return 0 if result is None else result.exit_code
