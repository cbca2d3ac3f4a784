"""Everything that a connector owes, checked on this one."""

from __future__ import annotations

from pz_example.kit import ExampleSuite


class TestExample(ExampleSuite):
    pass
