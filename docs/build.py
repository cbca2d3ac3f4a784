"""Write the reference pages from the code. `--check` says which differ from what is there, and exits 1."""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

HERE = Path(__file__).resolve().parent
HEAD = "<!-- Made from the code by `make docs`; a test compares. Edit the code instead. -->\n\n"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def doc(thing: Any) -> str:
    return plain(inspect.cleandoc(inspect.getdoc(thing) or ""))


def plain(text: str) -> str:
    """Markdown for what docstrings mark up: roles become the name that they lead to, doubled backticks single ones."""
    return re.sub(r"``([^`]+)``", r"`\1`", re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text))


def signature(function: Callable[..., Any]) -> str:
    shown = str(inspect.signature(function)).replace("'", "")
    return shown.replace("(self, ", "(").replace("(self)", "()")


def codes() -> str:
    from pz_core.codes import CODES

    lines = [
        "# Codes\n",
        "`pz explain PZ0206` prints a row of this page.\n",
        "| code | severity | title | cause | what to do |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {c.code} | {c.severity} | {cell(c.title)} | {cell(c.cause)} | {cell(c.remedy)} |" for c in CODES.values()
    ]
    return "\n".join(lines) + "\n"


def hooks() -> str:
    from pz_core.plugins import hookspecs

    lines = ["# Hooks\n", doc(hookspecs) + "\n"]
    for name, function in inspect.getmembers(hookspecs, inspect.isfunction):
        if name.startswith("pz_"):
            lines.append(f"## `{name}{signature(function)}`\n\n{doc(function)}\n")
    return "\n".join(lines)


def field_docs(kind: type) -> dict[str, str]:
    """What stands in a string below each field of a class."""
    [body] = [n for n in ast.parse(textwrap.dedent(inspect.getsource(kind))).body if isinstance(n, ast.ClassDef)]
    found: dict[str, str] = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        text = after.value if isinstance(after, ast.Expr) else None
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Constant):
            found[field.target.id] = plain(inspect.cleandoc(str(text.value)))
    return found


def record_table(kind: type[Struct]) -> str:
    docs = field_docs(kind)
    types = {
        name: said for base in reversed(kind.__mro__) for name, said in vars(base).get("__annotations__", {}).items()
    }
    return "\n".join(
        f"- `{name}: {types[name]}`" + (f": {cell(docs[name])}" if name in docs else "")
        for name in kind.__struct_fields__
    )


def contract() -> str:
    import pz_core.contract as room
    from pz_core.contract import engine

    lines = ["# The contract\n", doc(room) + "\n"]
    names = [getattr(room, n) for n in room.__all__] + [engine.Engine, engine.EngineSettings, engine.Control]
    for thing in names:
        if not inspect.isclass(thing):
            continue
        if thing.__doc__ and thing.__doc__.startswith(f"{thing.__name__}("):
            continue
        lines.append(f"## {thing.__name__}\n\n{doc(thing)}\n")
        if issubclass(thing, Struct):
            lines.append(record_table(thing) + "\n")
        for name, member in vars(thing).items():
            if inspect.isfunction(member) and not name.startswith("_"):
                lines.append(f"### `{name}{signature(member)}`\n\n{doc(member)}\n")
    return "\n".join(lines)


def kit() -> str:
    import pz_core.testkit as room
    from pz_core.testkit import corpus, rules

    lines = ["# The kit\n", doc(room) + "\n"]
    suites = [room.ConnectorSuite, room.StrategySuite, room.CheckSuite, room.StateBackendSuite]
    for suite in suites:
        lines.append(f"## {suite.__name__}\n\n{doc(suite)}\n")
        lines.append("### What to set and override\n")
        for base in reversed(suite.__mro__[:-1]):
            lines += [f"- `{name}`: {cell(text)}" for name, text in field_docs(base).items()]
            for name, member in vars(base).items():
                text = doc(member) if inspect.isfunction(member) else ""
                if text.startswith("Hook: "):
                    lines.append(f"- `{name}{signature(member)}`: {cell(text.removeprefix('Hook: '))}")
        lines.append("\n### Rules\n\n| area | rule | what must hold | asked of |\n| --- | --- | --- | --- |")
        for each in suite.rules():
            needs = ", ".join(n.replace("|", " or ") for n in each.needs) or "all"
            lines.append(f"| {each.area} | `{each.name}` | {cell(each.title)} | {needs} |")
        lines.append("")
    for name in (
        "run_suite",
        "Report",
        "RuleResult",
        "notyet",
        "require",
        "Broken",
        "ProjectTester",
        "Said",
        "FakeClock",
        "DroppingProxy",
    ):
        thing = getattr(room, name)
        lines.append(f"## {name}{signature(thing) if inspect.isfunction(thing) else ''}\n\n{doc(thing)}\n")
        if inspect.isclass(thing):
            for member_name, member in vars(thing).items():
                if not member_name.startswith("_") and isinstance(member, property):
                    lines.append(f"- `{member_name}`: {cell(doc(member))}")
                elif not member_name.startswith("_") and inspect.isfunction(member):
                    lines.append(f"- `{member_name}{signature(member)}`: {cell(doc(member))}")
            lines.append("")
    lines.append(f"## The corpus\n\n{doc(corpus)}\n")
    lines.append("| sample | type | values | plain |\n| --- | --- | --- | --- |")
    lines += [
        f"| `{s.name}` | `{cell(s.type)}` | {len(s.values)} | {'yes' if s.plain else ''} |" for s in corpus.SAMPLES
    ]
    lines.append(f"\nRules of an author's own: {cell(doc(rules.rule))}\n")
    return "\n".join(lines)


def events() -> str:
    from pz_core.contract import events as module
    from pz_core.contract.events import Event, camel

    lines = [
        "# Events\n",
        "`--log-format json` prints one a line. All carry `event`, `at` (UTC) and `runId`; fields are only ever added.\n",
    ]
    kinds = [k for _, k in inspect.getmembers(module, inspect.isclass) if issubclass(k, Event) and k is not Event]
    for kind in sorted(kinds, key=lambda k: inspect.getsourcelines(k)[1]):
        name = kind.called()
        fields = [name for name in kind.__struct_fields__ if name not in ("at", "run_id")]
        shown = ", ".join(f"`{camel(name)}`" + (" (optional)" if name in kind.optional else "") for name in fields)
        lines.append(f"## {name}\n\n{doc(kind)}\n\nFields: {shown}\n")
    return "\n".join(lines)


def options_table(options: Any) -> str:
    if not options.options:
        return "None.\n"
    lines = ["| option | type | default | meaning |", "| --- | --- | --- | --- |"]
    for o in options.options:
        kind = f"{o.type}: {', '.join(o.choices)}" if o.choices else o.type
        default = "required" if o.required else (o.default or "")
        lines.append(
            f"| `{o.name}` | {cell(kind)} | {cell(default)} | {cell(o.summary)}{' (a secret)' if o.secret else ''} |"
        )
    return "\n".join(lines) + "\n"


def connectors() -> str:
    from pz_core.plugins import Registry

    registry = Registry()
    lines = [
        "# Connectors\n",
        "Those that this repository brings. pz's own keys are in [configuration](../configuration.md).\n",
    ]
    for name in registry.names("connector"):
        offer = registry.offer("connector", name)
        if offer is None or not offer.distribution.startswith("pz-connector-"):
            continue
        kind = registry.load("connector", name)
        caps = kind.capabilities
        lines.append(
            f"## {name}\n\n{registry.registration('connector', name).summary}; package `{offer.distribution}`.\n"
        )
        lines.append(
            f"Load modes: {', '.join(sorted(caps.load_modes)) or 'none'}. Schema policies: {', '.join(sorted(caps.schema_policies)) or 'none'}. "
        )
        lines.append(f"Abilities: {', '.join(caps.flags())}.\n")
        for title, options in (
            ("Connection", kind.connection_options),
            ("Read", kind.read_options),
            ("Write", kind.write_options),
        ):
            lines.append(f"### {title}\n\n{options_table(options)}")
    return "\n".join(lines)


def verbs() -> str:
    import click

    from pz_core.cli.app import cli

    lines = ["# Verbs\n"]
    with click.Context(cli, info_name="pz") as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            lines += help_of(command, f"pz {name}", "##")
    return "\n".join(lines)


def help_of(command: Any, name: str, heading: str) -> list[str]:
    """What `--help` prints of a verb, and of each verb below it."""
    import click

    width: dict[str, Any] = {"terminal_width": 100, "max_content_width": 100}
    with click.Context(command, info_name=name, help_option_names=["-h", "--help"], **width) as context:
        lines = [f"{heading} {name}\n\n```text\n{textwrap.dedent(command.get_help(context)).strip()}\n```\n"]
        for below in command.list_commands(context) if isinstance(command, click.Group) else ():
            lines += help_of(command.get_command(context, below), f"{name} {below}", f"{heading}#")
    return lines


PAGES: dict[str, Callable[[], str]] = {
    "codes.md": codes,
    "connectors.md": connectors,
    "contract.md": contract,
    "events.md": events,
    "hooks.md": hooks,
    "kit.md": kit,
    "verbs.md": verbs,
}


def build() -> dict[str, str]:
    """Text of every page by its path relative to docs/."""
    return {f"reference/{name}": HEAD + make() for name, make in PAGES.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for name, text in build().items():
        path = HERE / name
        if args.check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"differs from the code: {', '.join(stale)}; run `make docs`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
