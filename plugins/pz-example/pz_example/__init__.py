"""The connector ``example``: Arrow streams in a folder. Importing it costs nothing."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    """The one connector of this package."""
    return [
        Registration(
            name="example",
            target="pz_example.connector:Example",
            summary="Arrow streams in a folder",
            api=">=1.0,<2",
        )
    ]
