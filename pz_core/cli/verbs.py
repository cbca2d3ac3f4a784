"""The table of verbs: name, where its command is, and its one line of help.

The help stands here and not in the modules, so that ``pz --help`` and the completion of a verb's name import none.
"""

from __future__ import annotations

from msgspec import Struct


class Verb(Struct, frozen=True):
    """A row of the table.

    Args:
        target: ``module:attribute`` of the click command.
        summary: one line for ``pz --help``.
    """

    target: str
    summary: str


VERBS: dict[str, Verb] = {
    "init": Verb("pz_core.cli.init:init", "Start a project from a template."),
    "run": Verb("pz_core.cli.run:run", "Read, transform and load."),
    "test": Verb("pz_core.cli.test:test", "Run checks and what they need, without loading anything."),
    "retry": Verb("pz_core.cli.retry:retry", "Run again what failed or was skipped in the newest run."),
    "validate": Verb("pz_core.cli.validate:validate", "Check the whole project without running it."),
    "compile": Verb("pz_core.cli.compile:compile_", "Render the pipelines and write the manifest."),
    "plan": Verb("pz_core.cli.plan:plan", "Say what a run would do, and why."),
    "ls": Verb("pz_core.cli.ls:ls", "List the nodes of the project."),
    "runs": Verb("pz_core.cli.runs:runs", "List past runs."),
    "connectors": Verb("pz_core.cli.connectors:connectors", "List the connectors that the project can use."),
    "plugins": Verb("pz_core.cli.plugins:plugins", "List the plugins that are installed."),
    "deps": Verb("pz_core.cli.deps:deps", "Lock packages, and compare what is installed with the lock."),
    "restore": Verb("pz_core.cli.deps:restore", "Install what the lock says: pz deps sync."),
    "state": Verb("pz_core.cli.state:state", "Look at what is remembered of datasets, or change it."),
    "cdc": Verb("pz_core.cli.cdc:cdc", "Look at captured datasets, or end a capture."),
    "schema": Verb("pz_core.cli.schema:schema", "Accept changed columns; write schemas for editors."),
    "clean": Verb("pz_core.cli.clean:clean", "Remove staging files of past runs."),
    "explain": Verb("pz_core.cli.explain:explain", "Explain an error code."),
    "completion": Verb("pz_core.cli.completion:completion", "Print a completion script for a shell."),
}
