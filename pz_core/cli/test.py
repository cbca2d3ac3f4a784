"""``pz test``: the checks and what they need, without any sink."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pz_core.cli import output
from pz_core.cli.options import execution_options, project_options, select_option

if TYPE_CHECKING:
    from pz_core.compile.model import Graph


@click.command()
@project_options
@select_option
@execution_options
def test(
    project: Path, vars_json: str | None, expression: str | None, fail_fast: bool, log_format: str, no_lock_check: bool
) -> int:
    """Run checks and what they need, without loading anything: pz test && pz run is a gate.

    --select narrows the checks: name+ and tag:x+ take those of a pipeline.
    """
    from pz_core.cli.execution import before_any_node, carry_out, prepare

    def choose(graph: Graph) -> frozenset[str]:
        from pz_core.compile.select import checks_with_ancestors, select

        chosen = checks_with_ancestors(graph, select(graph, expression=expression))
        if expression is not None and not chosen:
            output.note("--select takes no check; name+ takes a pipeline with its checks")
        return chosen

    with before_any_node():
        prepared = prepare(project, vars_json, choose, narrow=expression is not None, skip_lock_check=no_lock_check)
    return carry_out(prepared, fail_fast=fail_fast, full_refresh=False, as_json=log_format == "json", advance=False)
