"""``pz retry``: what failed or was skipped in the newest run, on the rows that it has staged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pz_core.cli import output
from pz_core.cli.management import project_root
from pz_core.cli.options import execution_options, project_option

if TYPE_CHECKING:
    from pz_core.compile.model import Graph


@click.command()
@project_option
@click.option("--full-refresh", is_flag=True, help="Read everything again instead of reusing staged rows.")
@execution_options
def retry(project: Path, full_refresh: bool, fail_fast: bool, log_format: str, no_lock_check: bool) -> int:
    """Run again what failed or was skipped in the newest run.

    Rows that it has staged are reused, and outputs that it has written are left alone.
    """
    from pz_core.cli.execution import before_any_node, carry_out, prepare
    from pz_core.run.retry_plan import choose, run_to_retry, succeeded, take_over
    from pz_core.run.store import store_what_is_missing, stored_history

    with before_any_node():
        root = project_root(project)
        with stored_history(root) as history:
            if history.store is not None:
                store_what_is_missing(root, history.store)
            earlier = run_to_retry(root, history.store)
        output.tell_notices(history.notices)
        if succeeded(earlier):
            output.note(f"nothing to retry: run {earlier.run_id} succeeded")
            return 0

        def chosen(graph: Graph) -> frozenset[str]:
            found = choose(graph, earlier)
            output.tell_notices(found.notices)
            return found.ids

        prepared = prepare(project, None, chosen, narrow=False, skip_lock_check=no_lock_check)
        taken_over, notices = take_over(
            prepared.plan, prepared.selected, earlier, prepared.registry, full_refresh=full_refresh
        )
        output.tell_notices(notices)
    if not prepared.selected and not taken_over.carried:
        output.note(f"nothing to retry: the project has nothing left of what failed in run {earlier.run_id}")
        return 0
    return carry_out(
        prepared,
        fail_fast=fail_fast,
        full_refresh=full_refresh or earlier.full_refresh,
        as_json=log_format == "json",
        advance=earlier.advances,
        taken_over=taken_over,
    )
