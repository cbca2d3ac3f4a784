"""Names of tables, as connectors with :attr:`~pz_core.contract.capabilities.Capabilities.two_part_names` take them."""

from __future__ import annotations

from pz_core.contract.connector import ConnectorError


def two_part_name(entity: str, subject: str, default_schema: str, database: str) -> tuple[str, str]:
    """Schema and table of ``orders`` or ``mart.orders``.

    Args:
        entity: as the project spells it.
        subject: ``connection.entity``, for the message.
        default_schema: where a table without a schema is.
        database: what a connection leads to, for the hint: ``database``, ``database file``.

    Raises:
        ConnectorError: PZ0353 for a name of more than two parts, or with an empty one.
    """
    parts = entity.split(".")
    if len(parts) > 2 or not all(parts):
        raise ConnectorError(
            f"{subject}: '{entity}' is not the name of a table; a name is table or schema.table",
            code="PZ0353",
            hint=f"use at most two dotted parts; another {database} is another connection",
        )
    return (parts[0], parts[1]) if len(parts) == 2 else (default_schema, parts[0])
