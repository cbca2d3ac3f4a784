"""Random faults, in the run and over retries: in the end every row is there once, and nothing whole was done again."""

from __future__ import annotations

import os
import shutil
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = 150 if os.environ.get("PZ_DEEP") else 6
profile = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def afresh(lab):
    shutil.rmtree(lab.root / ".pz", ignore_errors=True)
    shutil.rmtree(lab.root / "out", ignore_errors=True)
    lab.world.__dict__.update(lab.places.World().__dict__)


def until_it_succeeds(lab, most=12):
    """Run, then retry until all is well; the codes on the way are those of failures, never of a fatal end."""
    from pz_core.cli.main import invoke

    code = invoke(("run",))
    for _ in range(most):
        if code == 0:
            return
        assert code == 1
        code = invoke(("retry",))
    raise AssertionError("it never succeeded")


@profile
@given(
    sizes=st.lists(st.integers(0, 45), min_size=1, max_size=7),
    faults=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 45), st.booleans()), max_size=9),
)
def test_every_row_of_every_partition_lands_once(lab, sizes, faults):
    afresh(lab)
    lab.pipeline("t", "{{ sink('lake', 't', strategy: 'replace', format: 'parquet') }}", "select id from "
                 "{{ source('src', 't') }}")  # fmt: skip
    parts = {f"p{n}": list(range(n * 100, n * 100 + size)) for n, size in enumerate(sizes)}
    lab.world.parts["t"] = parts
    planned = Counter()
    for part, after, passing in faults:
        name = f"p{part % len(sizes)}"
        planned[name] += 1
        lab.world.fail("t", name, lab.places.transient() if passing else lab.places.final(), after)
    until_it_succeeds(lab)
    assert lab.rows("out/t/t.parquet") == sorted(i for ids in parts.values() for i in ids)
    read = Counter(part for _, part, _ in lab.world.reads)
    assert read == {name: planned[name] + 1 for name in parts}, "a whole partition was read again"


@profile
@given(
    rows=st.integers(0, 60),
    ack=st.integers(1, 25),
    faults=st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=6),
    view=st.booleans(),
)
def test_every_row_is_delivered_once_where_the_target_confirms_and_keeps(lab, rows, ack, faults, view):
    afresh(lab)
    lab.pipeline(
        "t",
        "{{ sink('api', 't', strategy: 'append', duplicates: 'accept') }}",
        "select id, v from {{ source('src', 't') }}",
    )
    lab.write("pipelines/configs/t.yml", f"pipeline: t\nmaterialization: {'view' if view else 'table'}\n")
    lab.world.parts["t"] = {"all": list(range(rows))}
    lab.world.acknowledges = lambda sent: sent // ack * ack
    todo = list(faults)
    write = lab.places.Session.write

    def failing(self, batch):
        if todo and len(self._ids) + batch.num_rows > todo[0][0]:
            _, passing = todo.pop(0)
            raise lab.places.transient() if passing else lab.places.final()
        write(self, batch)

    lab.places.Session.write = failing
    import pz_core.engines.duckdb.arrow as batching

    real = batching.batch_rows
    batching.batch_rows = lambda size, columns=None: 7
    try:
        until_it_succeeds(lab)
    finally:
        lab.places.Session.write = write
        batching.batch_rows = real
    assert lab.world.targets.get("t", []) == list(range(rows))
