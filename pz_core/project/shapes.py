"""Small readers shared by every block: how a value is shown, what a near miss is, what a key may hold."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from pz_core.errors import Problems, Where
from pz_core.project.yaml import Block, Items, Node, Text, printed, to_value
from pz_core.values import Value

_LONGEST = 60
#: Texts that may carry a credential are described, not shown.
_TELLTALE = re.compile(r"://|@|(?:pass|pwd|secret|token|key)\w*\s*[=:]", re.IGNORECASE)


def shown(value: Value) -> str:
    """A value in a message: scalars as written, anything else by its shape."""
    if isinstance(value, str):
        if _TELLTALE.search(value):
            return "a text"
        return f"'{value[:_LONGEST]}…'" if len(value) > _LONGEST else f"'{value}'"
    if isinstance(value, (bool, int, float)):
        return printed(value)
    return "a mapping" if isinstance(value, Mapping) else "a list"


def shown_node(node: Node) -> str:
    """Like :func:`shown`, for a node; what was quoted is shown with quotes, what was plain without."""
    if isinstance(node, Text):
        return shown(node.text) if not node.plain or not node.text else shown(node.text).strip("'")
    return shown(to_value(node)) if isinstance(node, Items) else "a mapping"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? `` for a near miss, else nothing."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.7)
    return f"did you mean '{close[0]}'? " if close else ""


def one_of(words: Sequence[str]) -> str:
    """Words joined for a hint."""
    return ", ".join(words) if words else "none"


def whole(node: Node, minimum: int | None = None, maximum: int | None = None) -> int | None:
    """The value of a plain integer within bounds, both inclusive, else ``None``."""
    if not isinstance(node, Text):
        return None
    return whole_value(node.value, minimum, maximum)


def whole_value(value: Value, minimum: int | None = None, maximum: int | None = None) -> int | None:
    """An integer (no bool) within bounds, both inclusive, else ``None``."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        return None
    return value


def switch(node: Node) -> bool | None:
    """The value of a plain ``true`` or ``false``, else ``None``."""
    value = node.value if isinstance(node, Text) else None
    return value if isinstance(value, bool) else None


def unknown_keys(block: Block, known: Sequence[str], *, code: str, what: str, file: str, problems: Problems) -> None:
    """Refuse every key of a block that is not known, with the key that was probably meant."""
    for key, entry in block.fields.items():
        if key in known:
            continue
        problems.error(
            code,
            f"{what} has no key '{key}'",
            where=Where(file, entry.line),
            hint=f"{did_you_mean(key, known)}known keys: {one_of(known)}",
        )
