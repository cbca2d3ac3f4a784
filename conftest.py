"""Of all tests, those of the plugins too: the fixtures of the real servers."""

from __future__ import annotations

import pytest

pytest_plugins = ("servers.fixtures",)

#: Files of the kit on first-party plugins -> one rule in so many runs with `make test`, the others with `make deep`.
_SAMPLED = {"test_s3_kit.py": 6, "test_postgres_kit.py": 5, "test_duckdb_kit.py": 5, "test_localfiles_kit.py": 5}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep `make test` short: of the kit's rules a fixed part runs there. Naming a file runs that part too."""
    seen: dict[str, int] = {}
    for item in items:
        each = _SAMPLED.get(item.path.name)
        if each is None:
            continue
        seen[item.path.name] = at = seen.get(item.path.name, -1) + 1
        if at % each:
            item.add_marker(pytest.mark.deep)
