"""Sizes of memory as people write them: ``4GB``, ``512 MiB``, ``80%``."""

from __future__ import annotations

import re

_SIZE = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([a-z]*)\s*", re.IGNORECASE)
_PERCENTAGE = re.compile(r"\s*[0-9]{1,18}(?:\.[0-9]{1,18})?\s*%\s*")
_UNITS: dict[str, int] = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    spelling: base**power
    for power, (letter, word) in enumerate((("k", "kilo"), ("m", "mega"), ("g", "giga"), ("t", "tera")), start=1)
    for base, spellings in (
        (1000, (letter, f"{letter}b", f"{word}byte", f"{word}bytes")),
        (1024, (f"{letter}i", f"{letter}ib", f"{word[:2]}bibyte", f"{word[:2]}bibytes")),
    )
    for spelling in spellings
}


def is_percentage(text: str) -> bool:
    """Whether a text is a share of the machine's memory, such as ``80%``."""
    return _PERCENTAGE.fullmatch(text) is not None


def parse_size(text: str) -> int | None:
    """Bytes of ``1GiB``, ``500 MB`` or ``1073741824``; ``None`` if the text is no size. Case does not matter."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        return None
    number, unit = match[1], _UNITS[match[2].lower()]
    return int(number) * unit if number.isdecimal() else int(float(number) * unit)
