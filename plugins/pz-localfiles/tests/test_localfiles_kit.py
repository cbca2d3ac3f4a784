"""The kit's rules on the connector ``localfiles``, in each format."""

from __future__ import annotations

from pz_localfiles.kit import LocalFilesSuite, TextFilesSuite

from pz_core.testkit.connector_hooks import ALL_TYPES


class TestParquet(LocalFilesSuite):
    pass


class TestCsv(TextFilesSuite):
    file_format = "csv"


class TestJson(TextFilesSuite):
    """JSON numbers of more digits than a double holds are written, and refused by name when they are read."""

    file_format = "json"
    types = ALL_TYPES - {"decimal"}
