"""Prints, and imports what is heavy, before anybody has asked for anything."""

from __future__ import annotations

import duckdb

from pz_core import hookimpl
from pz_core.contract import Registration

print(f"hello from {duckdb.__name__}")


@hookimpl
def pz_connectors() -> list[Registration]:
    return [Registration("hostile_loud_import", "pz_hostile.behaving:Honest", "loud", ">=1,<2")]
