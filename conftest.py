"""Of all tests, those of the plugins too: the fixtures of the real servers."""

from __future__ import annotations

pytest_plugins = ("servers.fixtures",)
