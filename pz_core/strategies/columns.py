"""Column lists of the strategies' statements: always explicit, always quoted."""

from __future__ import annotations

from collections.abc import Iterable

from pz_core.contract.strategy import LoadRequest, plain_insert
from pz_core.errors import PzError
from pz_core.values import quote_identifier


def listed(names: Iterable[str], relation: str = "") -> str:
    """Names quoted and joined, each qualified with ``relation`` (an alias, quoted already) if there is one."""
    prefix = f"{relation}." if relation else ""
    return ", ".join(prefix + quote_identifier(name) for name in names)


def insert_all(request: LoadRequest) -> str:
    """The statement that adds every row of the batch to the target."""
    return plain_insert(request)


def key_columns(request: LoadRequest) -> tuple[str, ...]:
    """The keys as the columns to write spell them: the exact spelling first, else one that differs only in case.

    Raises:
        PzError: PZ0209 if there are no keys, or one is no column of the batch.
    """
    if not request.keys:
        raise PzError("PZ0209", f"{request.output}: no keys are given", hint="add keys: ['id'] to the sink")
    exact = {c.name for c in request.columns}
    folded = {c.name.casefold(): c.name for c in request.columns}
    found: list[str] = []
    missing: list[str] = []
    for key in request.keys:
        name = key if key in exact else folded.get(key.casefold())
        if name is None:
            missing.append(key)
        elif name not in found:
            found.append(name)
    if missing:
        raise PzError(
            "PZ0209",
            f"{request.output}: merge key {', '.join(missing)} is no column of the batch",
            hint=f"select it in the pipeline, or change keys; columns are {', '.join(c.name for c in request.columns)}",
        )
    return tuple(found)


def free_name(wanted: str, request: LoadRequest) -> str:
    """A column name, quoted, that no column of the batch has."""
    taken = {c.name.casefold() for c in request.columns}
    while wanted.casefold() in taken:
        wanted += "_"
    return quote_identifier(wanted)
