"""A workbench on a database of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pz_postgres.connector import Postgres

from pz_core.contract.connector import ConnectionConfig
from pz_core.contract.secrets import Secret
from pz_core.testkit.bench import Bench


@pytest.fixture
def connector() -> Callable[..., Postgres]:
    """Makes a connector for an address, with further options."""

    def make(address: Any, **more: Any) -> Postgres:
        options = {**address.options(), **more}
        return Postgres(
            ConnectionConfig("depot", "postgres", {**options, "password": Secret(str(options["password"]))})
        )

    return make


@pytest.fixture
def bench(tmp_path: Path, connector: Callable[..., Postgres]) -> Callable[..., Bench]:
    """Makes a workbench for an address."""
    made = 0

    def make(address: Any, **more: Any) -> Bench:
        nonlocal made
        made += 1
        return Bench(connector(address, **more), tmp_path / f"bench{made}")

    return make
