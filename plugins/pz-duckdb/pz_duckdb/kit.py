"""The suite that ``pz plugins check duckdb`` runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pz_core.testkit import Broken, ConnectorSuite, NotYet, notyet
from pz_core.values import Value
from pz_duckdb.connector import DuckDB

_ZEROS = "DuckDB 1.5.5 compresses 0.0 and -0.0 beside it as one value when it checkpoints a database file"


class DuckDBSuite(ConnectorSuite):
    """A database file of the rule's own."""

    connector = DuckDB
    not_yet: ClassVar[Mapping[str, NotYet]] = {
        "values_arrive_exactly_or_are_refused[double_negative_zero]": notyet(_ZEROS, raises=Broken),
        "values_arrive_exactly_or_are_refused[double_zeros_only]": notyet(_ZEROS, raises=Broken),
    }

    def options(self) -> Mapping[str, Value]:
        """A file that the first write makes."""
        return {"path": "store.duckdb"}

    def broken(self) -> Mapping[str, Value]:
        """A file in a folder that is a file."""
        (self.project / "file").write_text("")
        return {"path": "file/store.duckdb"}
