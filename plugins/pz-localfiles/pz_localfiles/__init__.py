"""The connector ``localfiles``: csv, tsv, json and parquet files on this machine. Importing it costs nothing."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract.registration import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    """The one connector of this package."""
    return [
        Registration(
            name="localfiles",
            target="pz_localfiles.connector:LocalFiles",
            summary="csv, tsv, json and parquet files in folders of this machine",
            api=">=1.0,<2",
        )
    ]
