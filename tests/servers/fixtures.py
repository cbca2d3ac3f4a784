"""Fixtures that every test of the repository may ask for, wherever it stands. Nothing starts before it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from servers import Unavailable, shared


def _shared_server(factory: pytest.TempPathFactory, name: str, start: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Reach the session's one server of a kind; where its package has none for this machine, the test is skipped."""
    base = factory.getbasetemp()
    common = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    try:
        return shared(name, common / "servers", start)
    except Unavailable as error:
        pytest.skip(str(error))


def _postgres(factory: pytest.TempPathFactory, version: int):  # type: ignore[no-untyped-def]
    from servers.postgres import Address, start_postgres

    return Address.of(
        _shared_server(factory, f"postgres{version}", lambda: {"url": start_postgres(version).address.url})["url"]
    )


@pytest.fixture(scope="session")
def postgres18(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Address of the session's PostgreSQL 18 (:class:`servers.postgres.Address`, a superuser)."""
    return _postgres(tmp_path_factory, 18)


@pytest.fixture(scope="session")
def postgres16(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """Address of the session's PostgreSQL 16."""
    return _postgres(tmp_path_factory, 16)


@pytest.fixture(scope="session")
def cases_postgres(postgres18) -> dict[str, str]:  # type: ignore[no-untyped-def]
    """What the runner of the cases must find in its environment for ``needs: [postgres]``."""
    return {"CASES_PG": postgres18.url}


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """The session's S3 server (:class:`servers.s3.Store` without a bucket)."""
    from servers.s3 import shared_form, start_s3, store_of

    return store_of(_shared_server(tmp_path_factory, "s3", lambda: shared_form(start_s3().store)))


@pytest.fixture(scope="session")
def cases_s3(s3_server) -> dict[str, str]:  # type: ignore[no-untyped-def]
    """The same for ``needs: [s3]``."""
    from servers.s3 import cases_environment

    return cases_environment(s3_server)


@pytest.fixture
def s3(s3_server) -> Iterator:  # type: ignore[no-untyped-def, type-arg]
    """A bucket of this test's own."""
    with s3_server.bucket_of_its_own() as made:
        yield made


@pytest.fixture
def pg18(postgres18) -> Iterator:  # type: ignore[no-untyped-def, type-arg]
    """A database of this test's own on PostgreSQL 18."""
    with postgres18.database_of_its_own() as made:
        yield made


@pytest.fixture
def pg16(postgres16) -> Iterator:  # type: ignore[no-untyped-def, type-arg]
    """A database of this test's own on PostgreSQL 16."""
    with postgres16.database_of_its_own() as made:
        yield made


@pytest.fixture(params=[18, 16], ids=["pg18", "pg16"])
def pg(request: pytest.FixtureRequest) -> Iterator:  # type: ignore[type-arg]
    """A database of this test's own, on each version in turn."""
    with request.getfixturevalue(f"postgres{request.param}").database_of_its_own() as made:
        yield made
