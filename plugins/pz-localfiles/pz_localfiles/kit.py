"""The suites that ``pz plugins check localfiles`` and the tests run."""

from __future__ import annotations

from collections.abc import Mapping

from pz_core.errors import PzError
from pz_core.testkit import ConnectorSuite
from pz_core.values import Value
from pz_localfiles.connector import LocalFiles


class LocalFilesSuite(ConnectorSuite):
    """Parquet files, which know their types; DuckDB has whole numbers beyond 64 bits as decimals there."""

    connector = LocalFiles
    returns_as = {"HUGEINT": "DECIMAL(38,0)"}
    file_format = "parquet"

    def options(self) -> Mapping[str, Value]:
        """A folder of the rule's own."""
        return {"root": "lake"}

    def broken(self) -> Mapping[str, Value]:
        """A root that is a file."""
        (self.project / "file").write_text("")
        return {"root": "file"}

    def read_options(self, entity: str) -> Mapping[str, Value]:
        """The folder that a write makes."""
        return {"format": self.file_format, "path": entity}

    def write_options(self, entity: str) -> Mapping[str, Value]:
        """The format."""
        return {"format": self.file_format}

    def is_absent(self, error: PzError, entity: str) -> bool:
        """A write that fails may leave the folder that it has made."""
        return "does not exist" in error.message or f"holds no {self.file_format} file" in error.message


class TextFilesSuite(LocalFilesSuite):
    """Files of text, whose types a contract says."""

    contract = True
