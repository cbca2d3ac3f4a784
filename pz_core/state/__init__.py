"""The state backends that the core ships, registered like anybody else's."""

from __future__ import annotations

from pz_core.contract.registration import Registration
from pz_core.plugins.markers import hookimpl


@hookimpl
def pz_state_backends() -> list[Registration]:
    """``local`` (JSON files of the project) and ``sqlite`` (one database file)."""
    api = ">=1.0,<2"
    return [
        Registration("local", "pz_core.state.local:LocalState", "JSON files in .pz/state of the project", api),
        Registration("sqlite", "pz_core.state.sqlite:SqliteState", "one SQLite database file", api, keys=("path",)),
    ]
