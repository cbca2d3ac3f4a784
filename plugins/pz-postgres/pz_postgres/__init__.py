"""The connector ``postgres``: tables of a PostgreSQL database. Importing it costs nothing."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract.registration import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    """The one connector of this package."""
    return [
        Registration(
            name="postgres",
            target="pz_postgres.connector:Postgres",
            summary="tables of a PostgreSQL database",
            api=">=1.0,<2",
        )
    ]
