"""What ``watermark()`` inference is told and what it finds; apart from the inference, which needs DuckDB's parser."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pz_core.compile.model import Incremental
from pz_core.errors import Problems
from pz_core.project.model import SyncConfig


class DatasetInfo(Struct, frozen=True):
    """What the rules need to know of a dataset that a pipeline reads.

    Args:
        relation: its relation in the schema ``staging``.
        columns: the contract, ``None`` without one.
        sync: the ``sync:`` block, ``None`` without one.
    """

    connection: str
    entity: str
    relation: str
    columns: Mapping[str, str] | None = None
    sync: SyncConfig | None = None


class Inferred(Struct, frozen=True):
    """What a pipeline's ``watermark()`` calls mean.

    Args:
        sql: the text with a NULL guard around each recognised comparison; as it was if there is any fault.
        incrementals: dataset (``connection.entity``) -> how it is read.
        problems: all faults.
    """

    sql: str
    incrementals: Mapping[str, Incremental]
    problems: Problems
