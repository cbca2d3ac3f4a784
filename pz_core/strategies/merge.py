"""The strategy ``merge``."""

from __future__ import annotations

from typing import ClassVar

from pz_core.contract.options import OptionSet, option_set
from pz_core.contract.strategy import LoadRequest, Probe, StrategyTraits
from pz_core.strategies.columns import free_name, key_columns, listed
from pz_core.values import quote_identifier

_BATCH = quote_identifier("pz_batch")
_TARGET = quote_identifier("pz_target")
_RANKED = quote_identifier("pz_ranked")


class Merge:
    """Updates the rows whose key the batch has, inserts the others of the batch, and removes none.

    Of several rows of one key in the batch, the last to arrive is kept. Keys of the batch are never NULL (PZ0521), so
    they are compared with ``=``, which a database can answer from an index.
    """

    name: ClassVar[str] = "merge"
    options: ClassVar[OptionSet] = option_set()
    traits: ClassVar[StrategyTraits] = StrategyTraits(
        takes_keys=True,
        idempotent=True,
        needs_complete_batch=False,
        takes_changes=True,
        load_modes=("program",),
    )

    def probes(self, request: LoadRequest) -> tuple[Probe, ...]:
        """NULL in a key fails the load; repeated keys are told.

        Raises:
            PzError: PZ0209 if a key is no column of the batch.
        """
        keys = key_columns(request)
        shown = _escaped(f"({', '.join(keys)})")
        holes = " OR ".join(f"{quote_identifier(k)} IS NULL" for k in keys)
        occurrences = quote_identifier("pz_times")
        return (
            Probe(
                "PZ0521",
                f"SELECT count(*) FROM {request.staged} WHERE {holes}",
                "error",
                f"{_escaped(request.output)}: NULL in a merge key {shown}, rows of the batch that have it: {{0}}",
                hint="filter those rows out in the pipeline, give them a key, or choose keys that are always filled",
                fields=("nullKeyRows",),
            ),
            Probe(
                "PZ0522",
                f"SELECT count(*) AS {quote_identifier('duplicateGroups')}, "
                f"CAST(coalesce(sum({occurrences} - 1), 0) AS BIGINT) AS {quote_identifier('extraRows')} "
                f"FROM (SELECT count(*) AS {occurrences} FROM {request.staged} GROUP BY {listed(keys)} "
                f"HAVING count(*) > 1) AS {_RANKED}",
                "warning",
                f"{_escaped(request.output)}: merge keys {shown} repeat in the batch ({{0}} of them, rows too many: "
                "{1}); the last row of each is kept",
                hint="make the keys unique in the pipeline, for example with qualify row_number() over (…) = 1",
                fields=("duplicateGroups", "extraRows"),
            ),
        )

    def program(self, request: LoadRequest) -> tuple[str, ...]:
        """Update what is there, then insert what is not.

        Raises:
            PzError: PZ0209 if a key is no column of the batch.
        """
        keys = key_columns(request)
        names = [c.name for c in request.columns]
        others = [n for n in names if n not in keys]
        batch = _last_of_each(request, keys, names)
        same = " AND ".join(f"{_TARGET}.{quote_identifier(k)} = {_BATCH}.{quote_identifier(k)}" for k in keys)
        made: list[str] = []
        if others:
            sets = ", ".join(f"{quote_identifier(n)} = {_BATCH}.{quote_identifier(n)}" for n in others)
            made.append(f"UPDATE {request.target} AS {_TARGET} SET {sets} FROM {batch} AS {_BATCH} WHERE {same}")
        made.append(
            f"INSERT INTO {request.target} ({listed(names)}) SELECT {listed(names, _BATCH)} FROM {batch} AS {_BATCH} "
            f"WHERE NOT EXISTS (SELECT 1 FROM {request.target} AS {_TARGET} WHERE {same})"
        )
        return tuple(made)


def _last_of_each(request: LoadRequest, keys: tuple[str, ...], names: list[str]) -> str:
    """The batch with one row a key, the last in order of arrival, as a subquery."""
    rank = free_name("pz_rank", request)
    return (
        f"(SELECT {listed(names)} FROM (SELECT {listed(names)}, row_number() OVER "
        f"(PARTITION BY {listed(keys)} ORDER BY {request.order} DESC) AS {rank} FROM {request.staged}) AS {_RANKED} "
        f"WHERE {rank} = 1)"
    )


def _escaped(text: str) -> str:
    """A text in which braces stand for themselves in a message of a probe."""
    return text.replace("{", "{{").replace("}", "}}")
