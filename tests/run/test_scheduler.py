from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pz_core.run.cancel import CancelToken
from pz_core.run.results import NodeResult
from pz_core.run.scheduler import Scheduler, Work


def ran(running, status="success"):
    work = running.work
    return NodeResult(work.id, work.kind, work.name, status)


@pytest.mark.parametrize("threads", [0, -1])
def test_too_few_threads_are_refused_at_once(threads):
    with pytest.raises(ValueError, match="threads"):
        Scheduler([], threads=threads, run=ran, cancel=CancelToken())


def test_nothing_to_do_ends_at_once():
    assert Scheduler([], threads=1, run=ran, cancel=CancelToken()).dispatch().results == []


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_node_gets_one_result_after_its_parents_whatever_fails(data):
    count = data.draw(st.integers(1, 14))
    works, fails = [], set()
    for i in range(count):
        parents = data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        works.append(
            Work(str(i), f"n{i}", "Pipeline", 1, tuple(str(p) for p in parents), data.draw(st.sampled_from("ab")))
        )
        if data.draw(st.integers(0, 4)) == 0:
            fails.add(str(i))
    fail_fast = data.draw(st.booleans())
    lock, now, peak, finished = threading.Lock(), set(), {}, set()
    threads = data.draw(st.integers(1, 4))

    def run(running):
        work = running.work
        with lock:
            assert set(work.parents) <= finished
            now.add(work)
            peak["all"] = max(peak.get("all", 0), len(now))
            same = sum(w.connection == work.connection for w in now)
            peak[work.connection] = max(peak.get(work.connection, 0), same)
        try:
            if work.id in fails:
                return ran(running, "failed")
            return ran(running)
        finally:
            with lock:
                now.discard(work)
                if work.id not in fails:
                    finished.add(work.id)

    outcome = Scheduler(
        works, threads=threads, run=run, cancel=CancelToken(), caps={"a": 1}, fail_fast=fail_fast
    ).dispatch()
    assert sorted(r.id for r in outcome.results) == sorted(w.id for w in works)
    assert peak["all"] <= threads and peak.get("a", 0) <= 1
    status = {r.id: r.status for r in outcome.results}
    for work in works:
        if any(status[p] != "success" for p in work.parents):
            assert status[work.id] == "skipped"
        elif not fail_fast or not fails & set(status):
            assert status[work.id] == ("failed" if work.id in fails else "success")


def test_parents_outside_the_run_count_as_done():
    outcome = Scheduler([Work("b", "b", "Pipeline", 1, ("gone",))], threads=1, run=ran, cancel=CancelToken()).dispatch()
    assert [r.status for r in outcome.results] == ["success"]


def test_a_chain_of_thousands_is_skipped_without_trouble():
    works = [Work("0", "0", "Pipeline", 1)]
    works += [Work(str(i), str(i), "Pipeline", 1, (str(i - 1),)) for i in range(1, 5_000)]
    outcome = Scheduler(works, threads=1, run=lambda r: ran(r, "failed"), cancel=CancelToken()).dispatch()
    assert len(outcome.results) == 5_000


def test_whatever_a_nodes_thread_raises_becomes_its_result():
    def run(running):
        raise SystemExit

    (result,) = Scheduler([Work("a", "a", "Check", 2)], threads=1, run=run, cancel=CancelToken()).dispatch().results
    assert result.status == "failed" and result.error.code == "PZ0500"
