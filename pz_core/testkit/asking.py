"""Short ways to ask and to judge, which the rules of all suites use."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from pz_core.codes import CODES
from pz_core.contract.strategy import Strategy
from pz_core.errors import PzError, PzErrors
from pz_core.testkit.corpus import memory_database
from pz_core.testkit.rows import Rows, read_rows
from pz_core.testkit.rules import codes_of, require
from pz_core.values import CONTRACT_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

_WORDS = {kind: word for word, kind in CONTRACT_TYPES.items()}
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def rows_of(table: pa.Table) -> Rows:
    """Rows of an Arrow table."""
    with memory_database() as database:
        database.register("given", table)
        return read_rows(database, "given")


def rows_of_batches(batches: Sequence[pa.RecordBatch]) -> Rows:
    """Rows of record batches."""
    import pyarrow as pa

    return rows_of(pa.Table.from_batches(list(batches)))


def word_of(kind: str) -> str | None:
    """The word of ``columns:`` for a DuckDB type; ``None`` if there is none."""
    found = _DECIMAL.fullmatch(kind)
    return f"decimal({found[1]},{found[2]})" if found else _WORDS.get(kind)


def strategy_of(name: str) -> Strategy:
    """A strategy of the core."""
    from pz_core.strategies.append import Append
    from pz_core.strategies.merge import Merge
    from pz_core.strategies.replace import Replace

    kinds: dict[str, type[Strategy]] = {"append": Append, "merge": Merge, "replace": Replace}
    return kinds[name]()


def caught(call: Callable[..., object], *arguments: Any, **named: Any) -> Exception | None:
    """What a call raises."""
    try:
        call(*arguments, **named)
    except Exception as error:  # noqa: BLE001 - it is handed back to be judged
        return error
    return None


def refused_by_name(error: BaseException | None, column: str | None = None, *, any_code: bool = False) -> str | None:
    """What is wrong with a refusal; ``None`` if it has a code of its own and names the column.

    Args:
        error: what was raised.
        column: that must stand in the message.
        any_code: whether PZ0501, which says nothing but that something failed, is enough.
    """
    if error is None:
        return "nothing was refused"
    codes = codes_of(error)
    if not codes:
        return f"a foreign {type(error).__name__} came out: {error}"
    if set(codes) == {"PZ0501"} and not any_code:
        return f"the refusal has no code of its own: {error}"
    if column is not None and column not in str(error):
        return f"the refusal does not name column '{column}': {error}"
    return None


def same_arguments(theirs: Callable[..., Any], ours: Callable[..., Any]) -> bool:
    """Whether a method can be called with what the contract's method is called with."""
    wanted = [p for p in inspect.signature(ours).parameters.values() if p.name != "self"]
    try:
        inspect.signature(theirs).bind(*[None for _ in wanted])
    except (TypeError, ValueError):
        return False
    return True


def sound(error: Exception, what: str) -> None:
    """Whether an error is one that a user can be shown and that may cross processes."""
    for one in error.errors if isinstance(error, PzErrors) else (error,):
        require(isinstance(one, PzError), f"{what} let a foreign {type(one).__name__} out: {one}")
        coded = cast(PzError, one)
        require(coded.code in CODES, f"{what} has a code that is in no table: {coded.code}")
        require(coded.message, f"{what}: {coded.code} says nothing")
        require(coded.hint, f"{what}: {coded.code} says no way out: {coded.message}")
        require("Traceback" not in coded.message, f"{what}: a stack trace stands in the message")
        again = pickle.loads(pickle.dumps(coded))
        require(again.as_dict() == coded.as_dict(), f"{what}: the error is another one in another process")
