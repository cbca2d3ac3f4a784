"""``pz completion``: the script that lets a shell complete verbs and options."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

from pz_core.cli.main import COMPLETE_VARIABLE
from pz_core.errors import PzError
from pz_core.render.stream import emit

_PWSH = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @(
        $commandAst.CommandElements |
            Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
            ForEach-Object { $_.ToString() }
    )
    $env:%(complete_var)s = 'pwsh_complete'
    $env:PZ_COMPLETE_WORDS = ($words -join "`n")
    $env:PZ_COMPLETE_INCOMPLETE = $wordToComplete
    try {
        %(prog_name)s | ForEach-Object {
            $value, $help = $_ -split "`t", 2
            if (-not $help) { $help = $value }
            [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $help)
        }
    } finally {
        Remove-Item Env:%(complete_var)s, Env:PZ_COMPLETE_WORDS, Env:PZ_COMPLETE_INCOMPLETE
    }
}
"""


class PwshComplete(ShellComplete):
    """Completion for PowerShell, which click does not bring: words come in, ``value<tab>help`` goes out."""

    name = "pwsh"
    source_template = _PWSH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words after ``pz`` that are complete, and the one that is not."""
        words = os.environ.get("PZ_COMPLETE_WORDS", "").split("\n")
        return [word for word in words[1:] if word], os.environ.get("PZ_COMPLETE_INCOMPLETE", "")

    def format_completion(self, item: CompletionItem) -> str:
        """One answer on a line."""
        return f"{item.value}\t{item.help}" if item.help else f"{item.value}"


_SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
    "pwsh": PwshComplete,
}


def answer(cli: click.Command, instruction: str) -> int:
    """Answer a shell that asks for completions, and give the exit code.

    Args:
        cli: the command line.
        instruction: ``bash_complete`` and the like.
    """
    add_completion_class(PwshComplete)
    return shell_complete(cli, {}, "pz", COMPLETE_VARIABLE, instruction)


#: The character \b keeps click from filling the lines below it up.
_HELP = """Print a completion script.

\b
bash: pz completion bash >> ~/.bashrc
zsh:  pz completion zsh >> ~/.zshrc
fish: pz completion fish > ~/.config/fish/completions/pz.fish
pwsh: pz completion pwsh >> $PROFILE
"""


@click.command(help=_HELP)
@click.argument("shell", metavar="bash|zsh|fish|pwsh")
def completion(shell: str) -> None:
    """Print the script of one shell.

    Raises:
        PzError: PZ0535 for a shell that is not known.
    """
    from pz_core.cli.app import cli

    found = _SHELLS.get(shell.lower())
    if found is None:
        raise PzError("PZ0535", f"unknown shell '{shell}'", hint=f"one of {', '.join(_SHELLS)}")
    # The base class's own source(): bash's would start a bash to ask for its version.
    emit(ShellComplete.source(found(cli, {}, "pz", COMPLETE_VARIABLE)).rstrip("\n"))
