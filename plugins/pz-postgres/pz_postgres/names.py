"""Names of tables."""

from __future__ import annotations

from msgspec import Struct

from pz_core.contract.connector import ConnectorError
from pz_core.contract.names import two_part_name
from pz_core.values import quote_path

DEFAULT_SCHEMA = "public"
#: PostgreSQL cuts a longer name without a word.
_LONGEST = 63


class TableName(Struct, frozen=True):
    """A table in its schema, spelled as PostgreSQL keeps it."""

    schema: str
    table: str

    @classmethod
    def of(cls, entity: str, subject: str) -> TableName:
        """``orders`` or ``mart.orders``.

        Raises:
            ConnectorError: PZ0353 for a name of more than two parts, with an empty part, or with one that is too long.
        """
        schema, table = two_part_name(entity, subject, DEFAULT_SCHEMA, "database")
        for part in (schema, table):
            if len(part.encode("utf-8")) > _LONGEST or "\0" in part:
                raise ConnectorError(
                    f"{subject}: '{part}' is no name for PostgreSQL, which takes at most {_LONGEST} bytes",
                    code="PZ0353",
                    hint="choose a shorter name",
                )
        return cls(schema, table)

    @property
    def quoted(self) -> str:
        """For SQL."""
        return quote_path(self.schema, self.table)
