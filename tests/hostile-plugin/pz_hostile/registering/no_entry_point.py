"""Registers a name that no entry point has."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    return [
        Registration("hostile_no_entry_point", "pz_hostile.behaving:Honest", "one", ">=1,<2"),
        Registration("hostile_stowaway", "pz_hostile.behaving:Honest", "another", ">=1,<2"),
    ]
