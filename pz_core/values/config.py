"""Plain values of YAML and of template calls, and their one canonical spelling."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

Scalar: TypeAlias = Union[str, int, float, bool]
Value: TypeAlias = Union[Scalar, Sequence["Value"], Mapping[str, "Value"]]


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no spaces: equal declarations give equal text.

    Raises:
        ValueError: for a value that JSON cannot hold, such as a number that is not finite.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite has no JSON form")
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise ValueError(f"{type(value).__name__} has no JSON form")
