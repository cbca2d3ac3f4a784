"""How a batch fits a target: ``schema_policy`` in one place, for every engine and every connector.

Source: DECISIONS 5 (the four policies) and 10 (a type that goes exactly into the target's is no change).
"""

from __future__ import annotations

from msgspec import Struct

from pz_core.errors import PzError
from pz_core.values import Column, holds_exactly

SCHEMA_POLICIES: tuple[str, ...] = ("fail_on_change", "additive", "evolve", "ignore")


class Reconciled(Struct, frozen=True):
    """What to do to the target before the load, and which columns of the batch to write.

    Args:
        create: whether the target must be created, with ``columns``.
        add: columns to add to the target, nullable.
        widen: columns of the target whose type must become the batch's.
        columns: columns of the batch to write, in its order, with the target's spelling and type after the change.
    """

    create: bool
    add: tuple[Column, ...]
    widen: tuple[Column, ...]
    columns: tuple[Column, ...]


def reconcile(
    policy: str, batch: tuple[Column, ...], target: tuple[Column, ...] | None, output: str, keys: tuple[str, ...] = ()
) -> Reconciled:
    """Compare a batch with its target under a schema policy.

    Names compare without case, as SQL's do. A missing target is created under every policy.

    Args:
        policy: one of :data:`SCHEMA_POLICIES`.
        batch: columns of the staged rows.
        target: columns of the target, ``None`` if it does not exist.
        output: ``connection.entity``, for the message.
        keys: merge keys, which no policy may leave out.

    Raises:
        PzError: PZ0804 naming every column that the policy refuses, with both types.
    """
    if target is None:
        return Reconciled(True, (), (), batch)
    there = {c.name.casefold(): c for c in target}
    add: list[Column] = []
    widen: list[Column] = []
    write: list[Column] = []
    refused: list[str] = []
    for column in batch:
        old = there.get(column.name.casefold())
        if old is None:
            if policy in ("additive", "evolve"):
                add.append(Column(column.name, column.type))
                write.append(column)
            elif policy == "ignore" and column.name.casefold() not in {k.casefold() for k in keys}:
                continue
            else:
                refused.append(f"column '{column.name}' ({column.type}) is not in the target")
        elif holds_exactly(old.type, column.type):
            write.append(old)
        elif policy == "evolve" and holds_exactly(column.type, old.type):
            changed = Column(old.name, column.type, old.nullable)
            widen.append(changed)
            write.append(changed)
        else:
            refused.append(f"column '{column.name}' is {column.type}, the target's is {old.type}")
    given = {c.name.casefold() for c in batch}
    for old in target:
        if old.name.casefold() not in given and not old.nullable:
            refused.append(f"column '{old.name}' of the target takes no NULL and the batch lacks it")
    if refused:
        raise PzError(
            "PZ0804",
            f"{output}: schema_policy {policy} refuses the batch: {'; '.join(refused)}",
            hint="change the pipeline or the target so that they agree, or choose another schema_policy "
            "(additive adds columns, evolve also widens types, ignore writes known columns only)",
        )
    return Reconciled(False, tuple(add), tuple(widen), tuple(write))
