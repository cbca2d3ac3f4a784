"""Options and arguments that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_project = click.option(
    "--project",
    "project",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Directory of the project; the current one by default.",
)
_vars = click.option(
    "--vars", "vars_json", metavar="JSON", default=None, help="Project variables to replace, as a JSON object."
)
_select = click.option(
    "--select",
    "expression",
    metavar="EXPR",
    default=None,
    help="Nodes to take: name, name+, +name, tag:x, source:conn.*; a space unites, a comma intersects.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
_lock = click.option(
    "--no-lock-check", "no_lock_check", is_flag=True, help="Run although installed versions differ from the lock."
)
_log_format = click.option(
    "--log-format",
    "log_format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    help="json: every line of stdout is one event.",
)
_fail_fast = click.option("--fail-fast", is_flag=True, help="Stop everything at the first failed node.")
_all = click.option("--all", "all_", is_flag=True, help="Take every flow of the project.")


def project_options(function: F) -> F:
    """``--project`` and ``--vars``."""
    return _project(_vars(function))


def project_option(function: F) -> F:
    """``--project``."""
    return _project(function)


def select_option(function: F) -> F:
    """``--select``."""
    return _select(function)


def all_option(function: F) -> F:
    """``--all``."""
    return _all(function)


def json_option(function: F) -> F:
    """``--json``."""
    return _json(function)


def lock_option(function: F) -> F:
    """``--no-lock-check``."""
    return _lock(function)


def execution_options(function: F) -> F:
    """``--fail-fast``, ``--log-format`` and ``--no-lock-check`` of the verbs that execute."""
    return _fail_fast(_log_format(_lock(function)))
