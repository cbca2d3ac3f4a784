"""The command ``pz`` itself: a group that knows its verbs without importing them."""

from __future__ import annotations

import importlib
from typing import Any

import click

from pz_core import __version__
from pz_core.cli.verbs import VERBS


class LazyGroup(click.Group):
    """A group that imports a verb's module only when that verb is called or its own options are completed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        module, _, attribute = verb.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; a misspelt one is answered with the nearest."""
        name = args[0]
        if name not in VERBS and not name.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(name, VERBS, n=2, cutoff=0.5)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"no such verb '{name}'.{meant}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete a verb's name without importing any."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(n, help=v.summary) for n, v in VERBS.items() if n.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    subcommand_metavar="VERB [ARGS]...",
)
@click.version_option(__version__, prog_name="pz", message="%(prog)s %(version)s")
def cli() -> None:
    """Move and reshape data from a folder of SQL and YAML."""
