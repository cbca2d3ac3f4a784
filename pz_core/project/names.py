"""Rules for names of connections, pipelines and entities."""

from __future__ import annotations

import re
import unicodedata

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOREIGN = re.compile(r"[^A-Za-z0-9_]")


def is_name(text: str) -> bool:
    """Whether a text can name a connection or a pipeline."""
    return _NAME.fullmatch(text) is not None


def legal_name(text: str) -> str:
    """A legal name close to a text: ``01_load`` becomes ``load_01``, ``my-yard`` becomes ``my_yard``."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = [w for w in re.split(r"[^A-Za-z0-9]+", plain) if w]
    digits = []
    while words and words[0].isdigit():
        digits.append(words.pop(0))
    made = "_".join(words + digits)
    if not made:
        return "unnamed"
    return made if is_name(made) else f"_{made}"


def fold(entity: str) -> str:
    """An entity's name as it stands in a staging relation: every character outside ``[A-Za-z0-9_]`` becomes ``_``."""
    return _FOREIGN.sub("_", entity)


def staging_relation(connection: str, entity: str) -> str:
    """Name of the relation that a dataset lands in: ``src_<connection>__<folded entity>``."""
    return f"src_{connection}__{fold(entity)}"


def entity_fault(name: str) -> str | None:
    """Why a text cannot name an entity (PZ0344), or ``None`` if it can."""
    if not name.strip():
        return "it is blank"
    if any(c.isspace() for c in name):
        return "it holds whitespace"
    if not all(name.split(".")):
        return "it has an empty part before, after or between dots"
    return None
