"""What a connector can do, as data: the planner, the documentation and the kit read the same record."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: How a target can take a load.
#: ``add``: rows are added to what is there. ``swap``: the whole content is exchanged at once.
#: ``program``: a strategy's SQL runs where the target lives, in one transaction.
#: ``rewrite``: the old content can be read into DuckDB, changed there, and swapped in.
LoadMode = Literal["add", "swap", "program", "rewrite"]


class Capabilities(Struct, frozen=True):
    """The abilities of a connector. All are off unless declared."""

    reads: bool = False
    """Entities can be read."""

    native_read: bool = False
    """A source offers DuckDB a fragment to scan."""

    universal_read: bool = False
    """A source offers Arrow record batches."""

    native_write: bool = False
    """DuckDB itself can write the target."""

    universal_write: bool = False
    """A sink takes Arrow record batches through a write session."""

    load_modes: frozenset[LoadMode] = frozenset()
    """Ways in which a target can take a load; a strategy runs where one of its own modes is among them."""

    schema_policies: frozenset[str] = frozenset()
    """``schema_policy`` values that a target honours; others are refused at plan time."""

    column_pruning: bool = False
    """A read can be cut down to some columns."""

    predicate_pushdown: bool = False
    """A read takes a filter in DuckDB's SQL."""

    bounded_window: bool = False
    """A read honours an upper bound on its cursor."""

    inclusive_bound: bool = False
    """A read honours a floor written with ``>=``."""

    floor_pushdown: bool = False
    """A read honours a floor on its cursor; without it the engine cuts after landing."""

    partitioned_read: bool = False
    """A read splits into partitions on a column."""

    stable_partitions: bool = False
    """Partitions carry ids that mean the same in every run."""

    sync_state: bool = False
    """A read can be resumed from an opaque token."""

    checkpointable_writes: bool = False
    """A target confirms rows while they are written, and a later delivery of the same rows can go on after them."""

    change_capture: bool = False
    """A read can deliver changes (``sync: {mode: cdc}``)."""

    apply_deletes: bool = False
    """A target can apply deletes of a change capture."""

    path_templating: bool = False
    """Calendar tokens in ``path`` are understood."""

    column_partitioned_writes: bool = False
    """``partition_by`` is understood."""

    ledger: bool = False
    """A target can store rows of pz's own in the transaction of a load (``duplicates: 'refuse'``)."""

    gated_operations: bool = False
    """Remote operations can be paced (``rate_limit``)."""

    two_part_names: bool = False
    """Entities are SQL names of at most two dotted parts."""

    transactional: bool = False
    """A load is all or nothing."""

    def flags(self) -> tuple[str, ...]:
        """Names of the abilities that are on, sorted."""
        return tuple(sorted(name for name in self.__struct_fields__ if getattr(self, name) is True))
