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
from pz_core.testkit.project import ProjectTester, Said


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


class Shop:
    """A project that captures a table into a target."""

    def __init__(
        self, folder: Path, address: Any, place: str = "duckdb", on_delete: str = "delete", **more: Any
    ) -> None:
        self.address, self.place = address, place
        target = {"connector": "duckdb", "path": "mart.duckdb"}
        if place == "postgres":
            target = {"connector": "postgres", **address.options()}
        entity = more.get("entity", "orders")
        output = "orders" if place == "duckdb" else "mart.orders"
        sink = f"'mart', '{output}', strategy: 'merge', keys: {more.get('keys', ['id'])}, on_delete: '{on_delete}'"
        if "policy" in more:
            sink += f", schema_policy: '{more['policy']}'"
        read = {"sync": {"mode": "cdc", **more.get("sync", {})}, **more.get("read", {})}
        self.project = ProjectTester(folder)
        self.project.write(
            {
                "connections.yml": {
                    "shop": {"connector": "postgres", **address.options(), "entities": {entity: {"read": read}}},
                    "mart": target,
                },
                "pipelines/orders.sql": f"INSERT INTO {{{{ sink({sink}) }}}}\n"
                + more.get("sql", f"SELECT * FROM {{{{ source('shop', '{entity}') }}}}"),
            }
        )

    def run(self, *argv: str) -> Said:
        return self.project.run("run", *argv)

    def good(self, *argv: str) -> dict[str, Any]:
        """Run it, and give the node of the read."""
        said = self.run(*argv)
        assert said.code == 0, said.err
        return next(n for n in self.project.results()["nodes"] if n["kind"] == "SourceLoad")

    def refused(self, *argv: str) -> str:
        said = self.run(*argv)
        assert said.code in (1, 2), said.out
        return said.err

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        if self.place == "postgres":
            return self.address.run(f"SELECT {columns} FROM mart.orders ORDER BY 1")
        import duckdb

        with duckdb.connect(str(self.project.folder / "mart.duckdb"), read_only=True) as database:
            database.execute("SET TimeZone = 'UTC'")
            return database.execute(f"SELECT {columns} FROM orders ORDER BY 1").fetchall()

    def same(self) -> None:
        """The target is what the table is."""
        assert self.rows() == self.address.run("SELECT * FROM orders ORDER BY 1")


@pytest.fixture
def make_shop() -> type[Shop]:
    """Makes a project that captures a table."""
    return Shop


@pytest.fixture
def shop(tmp_path: Path, pg18: Any) -> Callable[..., Shop]:
    """Makes a project on a database that has a table of orders."""
    pg18.run("CREATE TABLE orders (id int PRIMARY KEY, name text, n numeric(10,2))")
    pg18.run("INSERT INTO orders SELECT i, 'row ' || i, i / 4.0 FROM generate_series(1, 5) i")
    return lambda **more: Shop(tmp_path, pg18, **more)
