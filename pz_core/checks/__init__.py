"""The checks that the core ships, registered like anybody else's."""

from __future__ import annotations

from pz_core.contract.registration import Registration
from pz_core.plugins.markers import hookimpl


@hookimpl
def pz_checks() -> list[Registration]:
    """The six checks of the core."""
    made = (
        ("accepted_values", "AcceptedValues", "every value of a column is one of a list; NULL passes"),
        ("custom_sql", "CustomSql", "a query of the project's own returns no rows"),
        ("freshness", "Freshness", "the newest instant of a column is recent enough"),
        ("not_null", "NotNull", "no NULL in the listed columns"),
        ("row_count", "RowCount", "the number of rows lies within bounds"),
        ("unique", "Unique", "no key occurs more than once"),
    )
    return [
        Registration(name, f"pz_core.checks.{name}:{target}", summary, ">=1.0,<2") for name, target, summary in made
    ]
