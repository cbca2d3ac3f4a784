"""The one grammar of durations: digits and one of ``ms s m h d``; no sign, space, fraction or second part."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
#: A duration above zero, for a JSON Schema.
DURATION_PATTERN = "^0*[1-9][0-9]*(ms|s|m|h|d)$"
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
#: Longer than any duration that a clock can be asked to wait (about 292 million years) counts as malformed.
_LONGEST = 2**63 - 1


def parse_duration(text: object) -> int | None:
    """Milliseconds of ``30m``, ``24h``, ``7d``, ``500ms``; ``None`` if the text is no duration. Zero parses."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None or not match[1].isascii():
        return None
    made = int(match[1]) * _MILLISECONDS[match[2]]
    return made if made <= _LONGEST else None
