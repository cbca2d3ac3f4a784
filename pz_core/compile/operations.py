"""Operations of the template language on plain values, each with a bound on what it can make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pz_core.compile.faults import Fault

#: Bits of a whole number: more than any SQL type holds, few enough to print.
MAX_BITS = 1_024


def spell(value: object, line: int) -> str:
    """A value as it stands in SQL.

    Raises:
        Fault: for a value that has no spelling of its own there.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        if value.bit_length() > 2 * MAX_BITS:
            raise Fault("a number is too large to print", line)
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Fault("a number that is not finite has no spelling in SQL", line)
        return repr(value)
    hint = "join a list into text: {{ list | join(', ') }}"
    raise Fault(f"{kind_of(value)} cannot stand in SQL as it is", line, hint=hint)


def kind_of(value: object) -> str:
    """A value's kind in the words of a message."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list"


def is_list(value: object) -> bool:
    """Whether a value is a list; what YAML or a template made of one does not matter."""
    return isinstance(value, (list, tuple))


def is_number(value: object) -> bool:
    """Whether a value can be reckoned with; a boolean cannot."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def arithmetic(mark: str, left: Any, right: Any, line: int) -> Any:
    """``left mark right`` of two numbers.

    Raises:
        Fault: where there is no result, or one that is too large.
    """
    whole = isinstance(left, int) and isinstance(right, int)
    if whole and mark == "**" and right >= 0:
        bits = left.bit_length() * right if abs(left) > 1 else 1
    elif whole and mark == "*":
        bits = left.bit_length() + right.bit_length()
    else:
        bits = 0
    if bits > 2 * MAX_BITS:
        raise Fault("a number grows too large", line)
    try:
        made = _ARITHMETIC[mark](left, right)
    except ZeroDivisionError:
        if not whole and mark == "/":
            return math.nan if left == 0 else math.copysign(math.inf, left) * math.copysign(1.0, right)
        raise Fault("a number is divided by zero", line) from None
    except (OverflowError, ValueError):
        raise Fault("a number grows too large", line) from None
    if isinstance(made, complex):
        raise Fault("a negative number has no such root", line)
    if isinstance(made, int) and made.bit_length() > MAX_BITS:
        raise Fault("a number grows too large", line)
    return made


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
}
