"""The connector ``fixed_width``. Importing this module costs nothing: it only registers."""

from __future__ import annotations

from pz_core import hookimpl
from pz_core.contract import Registration


@hookimpl
def pz_connectors() -> list[Registration]:
    """The one connector of this package."""
    return [
        Registration(
            name="fixed_width",
            target="pz_fixed_width.connector:FixedWidth",
            summary="text files whose columns all have one width",
            api=">=1.0,<2",
        )
    ]
