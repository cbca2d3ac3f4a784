"""The strategy ``merge``."""

from __future__ import annotations

from typing import ClassVar

from pz_core.contract.capture import DELETED_AT
from pz_core.contract.options import OptionSet, option_set
from pz_core.contract.strategy import LoadRequest, Probe, StrategyTraits, Upsert
from pz_core.errors import PzError
from pz_core.strategies.columns import free_name, key_columns, listed
from pz_core.values import quote_identifier, quote_literal

_RANKED = quote_identifier("pz_ranked")
_REPEATED = "PZ0522"


class Merge:
    """Updates the rows whose key the batch has, inserts the others of the batch, and removes none by itself.

    Below a change capture it then removes the rows that the source has deleted, or stamps them (``on_delete``).

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
        present = _present(request)
        only = _only_present(request)
        holes = f"({holes}) AND {present}" if present else holes
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
                _REPEATED,
                f"SELECT count(*) AS {quote_identifier('duplicateGroups')}, "
                f"CAST(coalesce(sum({occurrences} - 1), 0) AS BIGINT) AS {quote_identifier('extraRows')} "
                f"FROM (SELECT count(*) AS {occurrences} FROM {request.staged}{only} GROUP BY {listed(keys)} "
                f"HAVING count(*) > 1) AS {_RANKED}",
                "warning",
                f"{_escaped(request.output)}: merge keys {shown} repeat in the batch ({{0}} of them, rows too many: "
                "{1}); the last row of each is kept",
                hint="make the keys unique in the pipeline, for example with qualify row_number() over (…) = 1",
                fields=("duplicateGroups", "extraRows"),
            ),
        )

    def program(self, request: LoadRequest) -> tuple[str, ...]:
        """Update what is there, then insert what is not, then delete what is gone.

        Raises:
            PzError: PZ0209 if a key is no column of the batch, PZ0339 if the target has no place for a soft delete.
        """
        keys = key_columns(request)
        names = tuple(c.name for c in request.columns)
        distinct = None
        if request.tripped is not None and _REPEATED not in request.tripped:
            distinct = f"(SELECT {listed(names)} FROM {request.staged}{_only_present(request)})"
        upsert = Upsert(request.target, names, keys, _last_of_each(request, keys, names), distinct)
        return (*upsert.statements(), *_deletes(request, keys))


def _last_of_each(request: LoadRequest, keys: tuple[str, ...], names: tuple[str, ...]) -> str:
    """The batch with one row a key, the last in order of arrival, as a subquery."""
    rank = free_name("pz_rank", request)
    # Where NULLs come by themselves differs; said in full, it reads the same in PostgreSQL.
    window = f"PARTITION BY {listed(keys)} ORDER BY {request.order} DESC NULLS LAST"
    return (
        f"(SELECT {listed(names)} FROM (SELECT {listed(names)}, row_number() OVER ({window}) AS {rank} "
        f"FROM {request.staged}{_only_present(request)}) AS {_RANKED} WHERE {rank} = 1)"
    )


def _present(request: LoadRequest) -> str | None:
    """A condition that holds for rows to write; ``None`` if it holds for all."""
    return None if request.gone is None else f"NOT {quote_identifier(request.gone)}"


def _only_present(request: LoadRequest) -> str:
    present = _present(request)
    return f" WHERE {present}" if present else ""


def _deletes(request: LoadRequest, keys: tuple[str, ...]) -> tuple[str, ...]:
    if request.gone is None:
        return ()
    listed_keys = listed(keys)
    shown = f"({listed_keys})" if len(keys) > 1 else listed_keys
    gone = f"{shown} IN (SELECT {listed_keys} FROM {request.staged} WHERE {quote_identifier(request.gone)})"
    if request.on_delete != "soft":
        return (f"DELETE FROM {request.target} WHERE {gone}",)
    stamp = next((c for c in request.columns if c.name.casefold() == DELETED_AT), None)
    if stamp is None:
        raise PzError(
            "PZ0339",
            f"{request.output}: on_delete: 'soft' stamps the column {DELETED_AT}, and the target has none",
            hint=f"add a column {DELETED_AT} (timestamptz, NULL allowed) to the target, or use schema_policy: additive",
        )
    name = quote_identifier(stamp.name)
    at = f"CAST({quote_literal(request.started_at)} AS TIMESTAMP WITH TIME ZONE)"
    return (f"UPDATE {request.target} SET {name} = {at} WHERE {name} IS NULL AND {gone}",)


def _escaped(text: str) -> str:
    """A text in which braces stand for themselves in a message of a probe."""
    return text.replace("{", "{{").replace("}", "}}")
