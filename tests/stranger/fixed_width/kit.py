"""What pz's kit needs to know to test this connector."""

from __future__ import annotations

from collections.abc import Mapping

from pz_fixed_width.connector import FixedWidth
from pz_fixed_width.text import ARROW

from pz_core.testkit import ConnectorSuite
from pz_core.values import Value


class FixedWidthSuite(ConnectorSuite):
    """Every rule for connectors, on a folder of the rule's own."""

    connector = FixedWidth
    types = frozenset(ARROW)
    contract = True

    def options(self) -> Mapping[str, Value]:
        """Connection options of a place that can be reached."""
        return {"folder": "place"}

    def broken(self) -> Mapping[str, Value]:
        """Options that never work."""
        (self.project / "file").write_text("")
        return {"folder": "file"}

    def read_options(self, entity: str) -> Mapping[str, Value]:
        """Columns wide enough for the kit's texts, the longest of which stand in files of a few rows."""
        return {"width": 250_000 if entity.startswith("v_") else 600}

    def write_options(self, entity: str) -> Mapping[str, Value]:
        """The same."""
        return self.read_options(entity)
