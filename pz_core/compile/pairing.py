"""Which ways to read go with which ways to load, over all that lies above an output.

The rules follow from what a strategy says of itself, never from its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from pz_core.compile.binding import Strategies, Write
from pz_core.errors import Problems, Where


class Upstream(Struct, frozen=True):
    """What lies above an output, as sorted names of datasets.

    Args:
        all: every dataset.
        incremental: those read incrementally, by YAML or by SQL.
        captured: those read as changes (``mode: cdc``).
        auto: those with an explicit ``mode: auto``.
    """

    all: tuple[str, ...] = ()
    incremental: tuple[str, ...] = ()
    captured: tuple[str, ...] = ()
    auto: tuple[str, ...] = ()


def check_pairing(
    outputs: Iterable[tuple[Write, Where]], upstream: Mapping[str, Upstream], strategies: Strategies, problems: Problems
) -> None:
    """PZ0214, PZ0335, PZ0336 and PZ0337 of every output.

    Args:
        outputs: what pipelines load, each with the place of its ``sink()`` call.
        upstream: pipeline -> what lies above it.
        strategies: the strategies' classes.
        problems: collects the faults, and a note where the answer depends on the connector.
    """
    for write, where in outputs:
        strategy = strategies.get(write.strategy, write.where)
        above = upstream.get(write.pipeline or "", Upstream())
        if strategy is not None:
            _check_deltas(write, where, strategy, above, problems)
            _check_deletes(write, where, strategy, above, problems)


def _check_deltas(write: Write, where: Where, strategy: Any, above: Upstream, problems: Problems) -> None:
    traits = strategy.traits
    complete = bool(traits.needs_complete_batch)
    snapshot = _takes_snapshot(strategy, write)
    if above.captured and not traits.takes_changes:
        problems.error(
            "PZ0335",
            f"{write.output} is loaded with strategy '{write.strategy}', which cannot apply the changes captured from "
            f"{_list(above.captured)}",
            where=where,
            hint="load it with strategy: 'merge', keys and on_delete, or read without sync: {mode: cdc}",
        )
    elif above.captured and snapshot:
        problems.error("PZ0335", _partial(write, above.captured, snapshot), where=where, hint=_SNAPSHOT_HINT)
    if above.incremental and (complete or snapshot):
        problems.error(
            "PZ0335",
            _partial(write, above.incremental, snapshot),
            where=where,
            hint=_SNAPSHOT_HINT if snapshot else "load it with strategy: 'merge' and keys, or read the dataset in full",
        )
    elif above.incremental and not traits.idempotent and write.declaration.duplicates is None:
        problems.error(
            "PZ0214",
            f"{write.output} is loaded with strategy '{write.strategy}' from the incremental read of "
            f"{_list(above.incremental)}: a batch that is delivered again would stand in it twice",
            where=where,
            hint="load it with strategy: 'merge' and keys, or accept repeated rows with duplicates: 'accept' (with "
            "duplicates: 'refuse' a target that can tell skips a batch that it has)",
        )
    if above.auto and not (above.incremental or above.captured):
        consent = traits.idempotent or write.declaration.duplicates is not None
        if complete or snapshot or not consent:
            problems.note(
                f"{write.output}: whether {_list(above.auto)} (sync mode auto) delivers all rows or only new ones is "
                f"known when the project is planned; strategy '{write.strategy}' is checked then",
                where=where,
            )


_SNAPSHOT_HINT = "remove snapshot: true, or read the dataset in full"


def _partial(write: Write, datasets: tuple[str, ...], snapshot: bool) -> str:
    with_snapshot = " and snapshot: true" if snapshot else ""
    return (
        f"{write.output} is loaded with strategy '{write.strategy}'{with_snapshot}, which takes the batch for all "
        f"there is, and {_list(datasets)} delivers only part of the rows"
    )


def _takes_snapshot(strategy: Any, write: Write) -> bool:
    options = getattr(strategy, "options", None)
    if options is None or options.get("snapshot") is None:
        return False
    return str(write.declaration.options.get("snapshot")).lower() == "true"


def _check_deletes(write: Write, where: Where, strategy: Any, above: Upstream, problems: Problems) -> None:
    on_delete = write.declaration.on_delete
    if above.captured and strategy.traits.takes_changes and on_delete is None:
        problems.error(
            "PZ0336",
            f"{write.output} takes the changes captured from {_list(above.captured)} and does not say what a delete "
            f"does",
            where=where,
            hint="add on_delete: 'delete', 'soft' or 'ignore'",
        )
    if on_delete is None:
        return
    if not above.captured:
        read = f" ({_list(above.all)})" if above.all else ""
        problems.error(
            "PZ0337",
            f"{write.output} says on_delete: '{on_delete}', and nothing above it{read} captures changes",
            where=where,
            hint="remove on_delete, or read the dataset with sync: {mode: cdc}",
        )
    elif on_delete != "ignore" and len(above.all) > 1:
        problems.error(
            "PZ0337",
            f"{write.output} says on_delete: '{on_delete}' and is made from {len(above.all)} datasets: "
            f"{_list(above.all)}; a row deleted in one of them cannot be told from a row of the result",
            where=where,
            hint="use on_delete: 'ignore', or load the captured dataset from a pipeline that reads nothing else",
        )


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
