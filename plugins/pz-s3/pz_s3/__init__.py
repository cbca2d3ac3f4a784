"""The connector ``s3``: csv, tsv, json and parquet objects in any S3-compatible store. Importing it costs nothing."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract.registration import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    """The one connector of this package."""
    return [
        Registration(
            name="s3",
            target="pz_s3.connector:S3",
            summary="csv, tsv, json and parquet objects in S3 and stores that speak its protocol",
            api=">=1.0,<2",
        )
    ]
