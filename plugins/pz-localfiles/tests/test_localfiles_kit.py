"""The kit's rules on the connector ``localfiles``, in each format."""

from __future__ import annotations

import os

import pytest
from pz_localfiles.kit import LocalFilesSuite, TextFilesSuite

from pz_core.testkit.connector_hooks import ALL_TYPES


class TestParquet(LocalFilesSuite):
    quick = "PZ_DEEP" not in os.environ


@pytest.mark.deep
class TestCsv(TextFilesSuite):
    file_format = "csv"


@pytest.mark.deep
class TestJson(TextFilesSuite):
    """Numbers of more digits than a double holds are written and refused by name when read; so are texts as JSON."""

    file_format = "json"
    types = ALL_TYPES - {"decimal", "json"}
    missing_is_null = True
