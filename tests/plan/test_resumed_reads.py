from __future__ import annotations

import pytest
from msgspec.structs import replace

from pz_core.errors import PzErrors
from pz_core.plan.planner import make_plan
from pz_core.project.model import SyncConfig


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"partition_column": "id", "partitions": 4}, "partition_column, partitions"),
        ({"files_per_partition": 2}, "files_per_partition"),
        ({"partitions": 1}, None),
        ({}, None),
    ],
)
def test_a_read_that_resumes_at_one_place_cannot_be_split(lab, options, named):
    able = replace(lab.files, partitioned_read=True, change_capture=True, sync_state=True)
    registry = lab.registry(fake=lab.connector(capabilities=able))
    graph = lab.graph(sources=[lab.source(options=options, sync=SyncConfig("cdc", slot="s"))])
    try:
        make_plan(graph, registry)
        found = []
    except PzErrors as errors:
        found = [e for e in errors if e.code == "PZ0316"]
    assert [named in e.message and "in.a" in e.message for e in found] == ([True] if named else [])
    assert all(e.hint == f"drop {named}" for e in found)
