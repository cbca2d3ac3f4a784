"""The connector and the state backend ``postgres``. Importing this costs nothing."""

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


@hookimpl
def pz_state_backends() -> list[Registration]:
    """State and runs in a PostgreSQL database."""
    return [
        Registration(
            name="postgres",
            target="pz_postgres.state:PostgresState",
            summary="tables of a PostgreSQL database that many machines share",
            api=">=1.0,<2",
            keys=("connection", "schema", "artifacts", "events"),
        )
    ]
