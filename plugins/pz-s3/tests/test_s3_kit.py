"""The kit's suite of connectors, on a real store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pz_s3.connector import S3

from pz_core.testkit.connector import ConnectorSuite
from pz_core.testkit.rules import Broken, notyet


@pytest.fixture(scope="module")
def bucket(s3_server: Any) -> Iterator[Any]:
    """One for all rules: each names its entities so that nobody else has them."""
    with s3_server.bucket_of_its_own() as made:
        yield made


class _OnTheStore(ConnectorSuite):
    connector = S3
    quick = "PZ_DEEP" not in os.environ
    format: ClassVar[str]
    not_yet: ClassVar = {
        "entities_may_have_any_name[backslash]": notyet(
            "SeaweedFS makes a slash of a backslash in a key", raises=Broken
        )
    }

    @pytest.fixture(autouse=True)
    def _store(self, bucket: Any) -> None:
        self.store = bucket

    def options(self) -> dict[str, Any]:
        return self.store.options("kit")

    def unreachable(self) -> dict[str, Any]:
        return self.store.options("kit", endpoint="127.0.0.1:1")

    def broken(self) -> dict[str, Any]:
        return self.store.options("kit", secret_key="not-the-one")

    def read_options(self, entity: str) -> dict[str, Any]:
        return {"format": self.format, "path": f"{entity}/"}

    def write_options(self, entity: str) -> dict[str, Any]:
        return {"format": self.format}


class TestS3Parquet(_OnTheStore):
    format = "parquet"
    returns_as: ClassVar = {"HUGEINT": "DECIMAL(38,0)", "UHUGEINT": "DECIMAL(38,0)"}


@pytest.mark.deep
class TestS3Csv(_OnTheStore):
    format = "csv"
    contract = True
