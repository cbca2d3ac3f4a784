"""``${NAME}`` in a connection's own keys and in ``vars:``, and nowhere else.

What a variable brings in is taken as it is: it is not looked at again, by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pz_core.errors import Problems, Where, withhold
from pz_core.project.yaml import Items, Node, Text, printed, typed
from pz_core.values import Scalar, Value
from pz_core.values.config import is_unicode

#: Variables that hold credentials whatever the project reads.
CREDENTIALS = ("PZ_STATE_CONNECTION_STRING", "PZ_STATE_TOKEN")

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def interpolate(node: Node, environ: Mapping[str, str], *, path: str, file: str, problems: Problems) -> Value:
    """A node as plain data, with every ``${NAME}`` replaced.

    A quoted scalar stays text. A plain one that changed is typed only where the typed value prints back as the same
    text. ``$${`` stands for a literal ``${``.

    Args:
        node: what was written.
        environ: the variables; one set to nothing counts as set.
        path: dotted path of the key, for messages.
        file: what messages call the file.
        problems: gets PZ0103 once for each reference to an unset variable.
    """
    if isinstance(node, Text):
        return _scalar(node, environ, path, file, problems)
    if isinstance(node, Items):
        return [
            interpolate(item, environ, path=f"{path}[{index}]", file=file, problems=problems)
            for index, item in enumerate(node.items)
        ]
    return {
        key: interpolate(entry.node, environ, path=f"{path}.{key}", file=file, problems=problems)
        for key, entry in node.fields.items()
    }


def references(node: Node, path: str = "") -> list[tuple[str, str, int]]:
    """Every ``${NAME}`` below a node: dotted path of the key, the reference, its line."""
    if isinstance(node, Text):
        return [
            (path, match[0], _line(node, match.start()))
            for match in _REFERENCE.finditer(node.text)
            if match[1] is not None
        ]
    found: list[tuple[str, str, int]] = []
    if isinstance(node, Items):
        for index, item in enumerate(node.items):
            found += references(item, f"{path}[{index}]")
        return found
    for key, entry in node.fields.items():
        found += references(entry.node, f"{path}.{key}" if path else key)
    return found


def variables(node: Node) -> set[str]:
    """Names of the variables that a node refers to."""
    return {reference[2:-1] for _, reference, _ in references(node)}


def withhold_environment(names: Iterable[str], environ: Mapping[str, str], spare: Iterable[str]) -> None:
    """Keep what variables brought into a project out of every message from now on.

    Args:
        names: of the variables that the project reads.
        environ: the variables.
        spare: names of things in the project: a message has to speak of them, whatever a variable holds.
    """
    kept = set(spare)
    found = {environ[name]: f"${{{name}}}" for name in (*names, *CREDENTIALS) if name in environ}
    withhold({text: shown for text, shown in found.items() if text not in kept}, afresh=True)


def _scalar(node: Text, environ: Mapping[str, str], path: str, file: str, problems: Problems) -> Scalar:
    if "${" not in node.text:
        return node.value

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "${"
        if name not in environ:
            problems.error(
                "PZ0103",
                f"{path} uses ${{{name}}}, and the environment variable {name} is not set",
                where=Where(file, _line(node, match.start())),
                hint=f"set {name}, or write $${{{name}}} if the text itself is meant",
            )
            return match[0]
        if not is_unicode(environ[name]):
            problems.error(
                "PZ0103",
                f"{path} uses ${{{name}}}, and the environment variable {name} holds bytes that are no UTF-8",
                where=Where(file, _line(node, match.start())),
                hint=f"set {name} to a text in UTF-8",
            )
            return match[0]
        return environ[name]

    made = _REFERENCE.sub(replace, node.text)
    if not node.plain or made == node.text:
        return made
    value = typed(made)
    return value if not isinstance(value, str) and printed(value) == made else made


def _line(node: Text, offset: int) -> int:
    # Only in a `|` block is each line of the text a line of the file; its first one stands below the sign.
    return node.line + 1 + node.text.count("\n", 0, offset) if node.literal else node.line
