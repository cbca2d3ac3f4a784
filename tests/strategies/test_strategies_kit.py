"""The kit's rules on the strategies of the core."""

from __future__ import annotations

from pz_core.strategies.append import Append
from pz_core.strategies.merge import Merge
from pz_core.strategies.replace import Replace
from pz_core.testkit import StrategySuite


class TestReplace(StrategySuite):
    strategy = Replace


class TestAppend(StrategySuite):
    strategy = Append


class TestMerge(StrategySuite):
    strategy = Merge
