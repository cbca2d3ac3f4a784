"""The state backend ``postgres`` under the kit's suite, on both versions of the server."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

import pytest
from pz_postgres.state import PostgresState

from pz_core.contract.connector import ConnectionConfig
from pz_core.contract.secrets import Secret
from pz_core.testkit.state import StateBackendSuite


class _OnPostgres(StateBackendSuite):
    backend = PostgresState

    def settings(self) -> Mapping[str, object]:
        return {"connection": self.config(), "schema": f"s {uuid.uuid4().hex} %"}

    def unreachable(self) -> Mapping[str, object]:
        return {"connection": self.config(port=1, connect_timeout_seconds=2)}

    def config(self, **more: object) -> ConnectionConfig:
        options = {**self.server.options(), **more}
        options["password"] = Secret(str(options["password"]))
        return ConnectionConfig("warehouse", "postgres", options, str(self.project))

    def _serve(self, server) -> None:
        self.server = server
        type(self).secrets = (server.password,)


class TestStateOnPostgres18(_OnPostgres):
    @pytest.fixture(autouse=True)
    def _server(self, pg18):
        self._serve(pg18)


class TestStateOnPostgres16(_OnPostgres):
    @pytest.fixture(autouse=True)
    def _server(self, pg16):
        self._serve(pg16)
