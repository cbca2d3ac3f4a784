"""``pz run``: load, compile, check, bind, select, plan; then execute and report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pz_core.cli.options import all_option, execution_options, project_options, select_option

if TYPE_CHECKING:
    from pz_core.compile.model import Graph


@click.command()
@click.argument("names", nargs=-1)
@project_options
@select_option
@all_option
@click.option("--full-refresh", is_flag=True, help="Read everything, as if nothing had been read before.")
@execution_options
def run(
    names: tuple[str, ...],
    project: Path,
    vars_json: str | None,
    expression: str | None,
    all_: bool,
    full_refresh: bool,
    fail_fast: bool,
    log_format: str,
    no_lock_check: bool,
) -> int:
    """Read, transform and load.

    NAMES are nodes to run with all that they need and all that needs them. Without NAMES, --select and --all,
    a project with several independent flows is refused.
    """
    from pz_core.cli.execution import before_any_node, carry_out, prepare

    def choose(graph: Graph) -> frozenset[str]:
        from pz_core.compile.select import select

        return select(graph, names=names, expression=expression, all_=all_, gate=True)

    with before_any_node():
        prepared = prepare(project, vars_json, choose, narrow=bool(names) or expression is not None)
    return carry_out(prepared, fail_fast=fail_fast, full_refresh=full_refresh, as_json=log_format == "json")
