from __future__ import annotations

import os
from typing import Any

import pytest
from pz_postgres.connector import Postgres

from pz_core.testkit.connector import ConnectorSuite


class _Suite(ConnectorSuite):
    connector = Postgres
    quick = "PZ_DEEP" not in os.environ
    public_options = frozenset({"ssl_key"})  # the path of a file
    server: Any

    def options(self) -> dict[str, Any]:
        return self.server.options()

    def unreachable(self) -> dict[str, Any]:
        return {**self.server.options(), "port": 1, "connect_timeout_seconds": 2}


class TestPostgres18(_Suite):
    @pytest.fixture(autouse=True)
    def _server(self, postgres18: Any) -> None:
        self.server = postgres18


@pytest.mark.deep
class TestPostgres16(_Suite):
    @pytest.fixture(autouse=True)
    def _server(self, postgres16: Any) -> None:
        self.server = postgres16
