from __future__ import annotations

import pytest

from pz_core.errors import PzError
from pz_core.plan.budget import memory_budget, parse_size
from pz_core.project.model import EngineConfig


def test_the_formula():
    budget = memory_budget(EngineConfig(threads=2, memory_limit="1GiB"))
    assert budget.duckdb_bytes == 1_073_741_824
    assert budget.channel_bytes == 402_653_184
    assert budget.fixed_overhead_bytes == 268_435_456
    assert budget.total_bytes == 1_744_830_464
    assert budget.duckdb_disclaimer is None


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GB", 10**9),
        ("1gib", 2**30),
        ("512 MiB", 512 * 2**20),
        ("1.5kb", 1500),
        ("1073741824", 2**30),
        ("2 terabytes", 2 * 10**12),
        ("3K", 3000),
        ("9007199254740993B", 9007199254740993),
        ("", None),
        ("lots", None),
        ("-1GB", None),
        ("1XB", None),
        ("1 0GB", None),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("limit", [None, "80%", " 12.5 % "])
def test_a_limit_that_depends_on_the_machine_counts_as_nothing_and_says_so(limit):
    budget = memory_budget(EngineConfig(memory_limit=limit, duckdb_threads=2))
    assert budget.duckdb_bytes is None and budget.duckdb_disclaimer
    assert budget.total_bytes == budget.channel_bytes + budget.fixed_overhead_bytes
    assert budget.duckdb_threads_disclaimer is None


def test_a_limit_that_is_no_size_is_refused():
    with pytest.raises(PzError) as caught:
        memory_budget(EngineConfig(memory_limit="plenty"))
    assert caught.value.code == "PZ0120"
