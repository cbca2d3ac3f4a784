"""Plain values of YAML and of template calls, and their one canonical spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

Scalar: TypeAlias = Union[str, int, float, bool]
Value: TypeAlias = Union[Scalar, Sequence["Value"], Mapping[str, "Value"]]


def is_unicode(value: object) -> bool:
    """Whether every text in a value can be written as UTF-8.

    Bytes of the environment that are no UTF-8, and escapes of half a character, become texts that cannot.
    """
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)
    if isinstance(value, Mapping):
        return all(is_unicode(k) and is_unicode(v) for k, v in value.items())
    return not isinstance(value, (list, tuple)) or all(is_unicode(item) for item in value)


def _spelled(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"{type(value).__name__} has no JSON form")


#: One for all calls: a compile spells thousands of declarations.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_spelled
)


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal declarations give equal text.

    Raises:
        ValueError: for a value that JSON cannot hold, such as a number that is not finite.
    """
    try:
        return _ENCODER.encode(value)
    except TypeError as error:  # keys that are no texts, or that cannot be sorted
        raise ValueError("a key that is no text has no JSON form") from error
