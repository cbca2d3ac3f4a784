"""The suite that ``pz plugins check example`` and the tests run."""

from __future__ import annotations

from collections.abc import Mapping

from pz_core.testkit import ConnectorSuite
from pz_core.values import Value
from pz_example.connector import Example


class ExampleSuite(ConnectorSuite):
    """A folder of the rule's own."""

    connector = Example

    def options(self) -> Mapping[str, Value]:
        """A folder that the first write makes."""
        return {"folder": "streams"}

    def broken(self) -> Mapping[str, Value]:
        """A folder that is a file."""
        (self.project / "file").write_text("")
        return {"folder": "file"}
