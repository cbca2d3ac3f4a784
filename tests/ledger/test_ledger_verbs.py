"""The ledger together with full refreshes, state verbs, retries, edited pipelines, and what it refuses."""

from __future__ import annotations

import pytest

from pz_core.contract.ledger import (
    LEDGER_TABLE,
    LedgerClaim,
    LedgerEntry,
    LedgerMark,
    LedgerState,
    delivered_by,
    refuse_lost_race,
)
from pz_core.errors import PzError

REFUSE = "sink('mart', 'orders', duplicates: 'refuse')"
TWIN = "sink('twin', 'orders', duplicates: 'refuse')"
MERGED = "sink('twin', 'merged', strategy: 'merge', keys: ['id'])"
UNION = """INSERT INTO {{ sink('mart', 'united', duplicates: 'refuse') }}
select id, v from {{ source('shop', 'orders') }} where id > {{ watermark('shop', 'orders') }}
union all
select id, v from {{ source('shop', 'others') }} where id > {{ watermark('shop', 'others') }}
"""


# --- full refresh ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("universal", [False, True], ids=["native", "universal"])
def test_a_full_refresh_fills_other_outputs_anew_and_repeats_nothing_here(lab, universal):
    lab.project(universal=universal)
    lab.pipeline(REFUSE, MERGED)
    lab.feed(1, 2)
    lab.pz("run")
    lab.ask("delete from merged", "twin")
    lab.feed(3)
    lab.pz("run", "--full-refresh")
    assert lab.node("mart.orders")["provenance"] == "already_delivered"
    assert (lab.ids(), lab.ids("merged", "twin"), lab.stored()) == ([1, 2], [1, 2], "2")
    lab.pz("run")
    assert (lab.ids(), lab.ids("merged", "twin"), lab.stored()) == ([1, 2, 3], [1, 2, 3], "3")


@pytest.mark.parametrize("universal", [False, True], ids=["native", "universal"])
@pytest.mark.parametrize("emptied", ["delete from orders", "drop table orders"])
def test_a_full_refresh_fills_a_target_that_was_emptied(lab, emptied, universal):
    lab.project(universal=universal)
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.pz("run")
    lab.ask(emptied)
    lab.feed(3)
    lab.pz("run", "--full-refresh")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "3")
    lab.pz("run", "--full-refresh")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "3")


def test_a_full_refresh_that_was_lost_is_not_delivered_again(lab):
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.pz("run")
    lab.ask("delete from orders")
    lab.feed(3)
    lab.run_and_forget("--full-refresh")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "2")
    lab.pz("run", "--full-refresh")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "3")


def test_a_target_that_was_only_emptied_gets_no_old_rows(lab):
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.run_and_forget()
    lab.ask("delete from orders")  # by whoever takes rows from there
    lab.feed(3)
    lab.pz("run", "--until-caught-up")
    assert (lab.ids(), lab.stored()) == ([3], "3")


# --- state verbs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "back",
    [("clear", "shop.orders"), ("set", "shop.orders", "--value", "1"), ("rollback", "shop.orders", "--to-run", "")],
    ids=lambda verb: verb[0],
)
def test_a_mark_that_was_set_back_repeats_nothing(lab, back):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.pz("run")
    first = lab.results()["runId"]
    for id in (2, 3):
        lab.feed(id)
        lab.pz("run")
    said = lab.pz("state", *(first if word == "" else word for word in back), "--yes")
    assert said.code == 0
    lab.feed(4)
    lab.pz("run", "--until-caught-up")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3, 4], "4")


def test_a_mark_that_was_set_forward_passes_over_rows(lab):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.pz("run")
    lab.pz("state", "set", "shop.orders", "--value", "3", "--yes")
    lab.feed(2, 3, 4)
    said = lab.pz("run")
    assert "mart.orders: its ledger ends before the watermark of shop.orders" in said.err
    assert (lab.ids(), lab.stored()) == ([1, 4], "4")
    assert "its ledger ends" not in lab.pz("run").err


def test_a_target_that_was_restored_from_a_backup_is_filled_again(lab):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.pz("run")
    assert lab.ids() == [1]  # and the log beside the file is gone
    backup = (lab.root / "mart.duckdb").read_bytes()
    lab.feed(2, 3)
    lab.pz("run")
    assert lab.ids() == [1, 2, 3]
    (lab.root / "mart.duckdb").write_bytes(backup)
    assert "its ledger ends before the watermark" in lab.pz("run").err
    assert lab.ids() == [1]
    lab.pz("state", "set", "shop.orders", "--value", "1", "--yes")
    lab.pz("run")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "3")


def test_rows_are_delivered_again_once_their_entry_was_deleted(lab):
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.pz("run")
    lab.ask(f"delete from {LEDGER_TABLE} where sink = 'mart.orders'")
    lab.pz("state", "clear", "shop.orders", "--yes")
    lab.pz("run")
    assert lab.ids() == [1, 1, 2, 2]


# --- retry -----------------------------------------------------------------------------------------------------------


def test_a_retry_delivers_to_the_failed_output_only(lab):
    lab.pipeline(REFUSE, TWIN)
    lab.write("twin.duckdb", "no database")
    lab.feed(1, 2)
    lab.pz("run", code=1)
    (lab.root / "twin.duckdb").unlink()
    lab.feed(3)
    lab.pz("retry")
    assert (lab.ids(), lab.ids(database="twin"), lab.stored()) == ([1, 2], [1, 2], "2")
    lab.pz("run")
    assert (lab.ids(), lab.ids(database="twin"), lab.stored()) == ([1, 2, 3], [1, 2, 3], "3")


def test_an_output_that_failed_after_its_commit_is_skipped_by_the_retry(lab, monkeypatch):
    from pz_core.contract.connector import ConnectorError
    from pz_core.engines.duckdb import drain

    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    load = drain.load_table
    with monkeypatch.context() as patched:

        def lose(*args):
            load(*args)
            raise ConnectorError("the line went dead")

        patched.setattr(drain, "load_table", lose)
        lab.pz("run", code=1)
    assert lab.stored() is None
    lab.pz("retry")
    assert (lab.ids(), lab.stored()) == ([1, 2], "2")


def test_a_full_read_that_failed_after_its_commit_is_skipped_by_the_retry(lab, monkeypatch):
    from pz_core.contract.connector import ConnectorError
    from pz_core.engines.duckdb import drain

    lab.pipeline(REFUSE, where="true")
    lab.feed(1, 2)
    load = drain.load_table
    with monkeypatch.context() as patched:

        def lose(*args):
            load(*args)
            raise ConnectorError("the line went dead")

        patched.setattr(drain, "load_table", lose)
        lab.pz("run", code=1)
    lab.pz("retry")
    assert lab.ids() == [1, 2]


def _fails_at_first(monkeypatch, times=1):
    """The ledger cannot be reached before the nodes start, and can be when the output is written."""
    from pz_core.contract.connector import ConnectorError
    from pz_core.engines.duckdb.engine import DuckDBEngine

    opened, count = DuckDBEngine.open_ledger, [0]

    def flaky(self, task, control):
        count[0] += 1
        if count[0] <= times:
            raise ConnectorError("not there", transient=True)
        return opened(self, task, control)

    monkeypatch.setattr(DuckDBEngine, "open_ledger", flaky)


def test_a_ledger_that_is_reached_late_still_refuses_a_part_and_a_run_mends_it(lab, monkeypatch):
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.run_and_forget()
    lab.feed(3)
    with monkeypatch.context() as patched:
        _fails_at_first(patched)
        said = lab.pz("run", code=1)
    assert "PZ0520" in said.err and "has a part of this batch" in said.err
    assert (lab.ids(), lab.stored()) == ([1, 2], None)
    said = lab.pz("retry")  # it does not take the staged rows, of which the target has a part
    assert "mart.orders has a part of these rows" in said.err
    lab.pz("run")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "3")


def test_a_ledger_that_is_reached_late_changes_nothing_for_a_new_batch(lab, monkeypatch):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.pz("run")
    lab.feed(2)
    with monkeypatch.context() as patched:
        _fails_at_first(patched)
        lab.pz("run")
    assert (lab.ids(), lab.stored()) == ([1, 2], "2")


# --- several datasets above one output -------------------------------------------------------------------------------


def test_datasets_of_one_output_are_replayed_together(lab):
    lab.write("pipelines/p.sql", UNION)
    lab.feed(1)
    lab.feed(7, file="others")
    lab.run_and_forget()
    lab.feed(2)
    lab.feed(8, file="others")
    lab.pz("run", "--until-caught-up")
    assert lab.ids("united") == [1, 2, 7, 8]


def test_a_dataset_whose_mark_was_written_waits_for_the_one_whose_mark_was_lost(lab):
    lab.write("pipelines/p.sql", UNION)
    lab.feed(1)
    lab.feed(7, file="others")
    lab.pz("run")
    lab.pz("state", "clear", "shop.others", "--yes")  # as if only this one had not been stored
    lab.feed(2)
    lab.feed(8, file="others")
    said = lab.pz("run")
    assert "shop.orders: not read in this run" in said.err
    assert (lab.ids("united"), lab.stored(), lab.stored("shop.others")) == ([1, 7], "1", "7")
    lab.pz("run")
    assert (lab.ids("united"), lab.stored(), lab.stored("shop.others")) == ([1, 2, 7, 8], "2", "8")


def test_a_dataset_that_a_pipeline_gained_waits_too(lab):
    first, _, _ = UNION.partition("union all")
    lab.write("pipelines/p.sql", first)
    lab.feed(1)
    lab.run_and_forget()
    lab.write("pipelines/p.sql", UNION)
    lab.feed(7, file="others")
    lab.feed(2)
    lab.pz("run")
    assert (lab.ids("united"), lab.stored(), lab.stored("shop.others")) == ([1], "1", None)
    lab.pz("run")
    assert (lab.ids("united"), lab.stored("shop.others")) == ([1, 2, 7], "7")


# --- edited projects -------------------------------------------------------------------------------------------------


def test_an_edited_pipeline_goes_on_from_the_ledger(lab):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.run_and_forget()
    lab.pipeline(REFUSE, where="id > {{ watermark('shop', 'orders') }} and v <> 'y'", name="p")
    (lab.root / "pipelines/p.sql").rename(lab.root / "pipelines/renamed.sql")
    lab.feed(2)
    lab.pz("run", "--until-caught-up")
    assert lab.ids() == [1, 2]


def test_another_cursor_is_refused_as_long_as_the_target_has_rows(lab):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.pz("run")
    lab.pipeline(REFUSE, where="v > {{ watermark('shop', 'orders') }}")
    lab.write("connections.yml", (lab.root / "connections.yml").read_text().replace("v: varchar", "v: date"))
    lab.write("in/orders0.csv", "id,v\n1,2026-01-01\n")
    said = lab.pz("run", "--full-refresh", code=1)
    assert "PZ0505" in said.err and "its ledger goes by cursor 'id'" in said.err
    lab.ask("drop table orders")
    lab.pz("run", "--full-refresh")
    assert (lab.ids(), lab.stored()) == ([1], "2026-01-01")


# --- what is refused, and what the plan says -------------------------------------------------------------------------


def test_the_plan_says_effectively_once(lab):
    lab.pipeline(REFUSE)
    said = lab.pz("plan")
    assert "mart.orders effectively once (a batch that the target already has is skipped, by the ledger" in said.out


@pytest.mark.parametrize(
    "where",
    [
        "id >= {{ watermark('shop', 'orders') }}",
        "id > {{ watermark('shop', 'orders') }} - 10",
        "id > least({{ watermark('shop', 'orders') }}, 5)",
        "id > coalesce({{ watermark('shop', 'orders') }}, 0) - 1",
        "id >= {{ watermark('shop', 'orders') }} and id < {{ watermark('shop', 'orders') }} + 10",
    ],
)
def test_a_read_that_looks_back_is_refused_offline(lab, where):
    lab.pipeline(REFUSE, where=where)
    said = lab.pz("plan", code=2)
    assert "PZ0214" in said.err and "takes rows again" in said.err
    lab.pipeline("sink('mart', 'orders', strategy: 'merge', keys: ['id'], duplicates: 'refuse')", where=where)
    lab.pz("plan")


@pytest.mark.parametrize(
    "where",
    [
        "id > coalesce({{ watermark('shop', 'orders') }}, 5)",
        "id > (coalesce ( {{ watermark('shop', 'orders') }} , (2 + 3) ))",
        "{{ watermark('shop', 'orders') }} < id",
        "id > greatest({{ watermark('shop', 'orders') }}, 5)",
        "id > {{ watermark('shop', 'orders') }} and id > {{ watermark('shop', 'orders') }} - 10",
        "id > {{ watermark('shop', 'orders') }} and id <= {{ watermark('shop', 'orders') }} + 10",
    ],
)
def test_a_read_that_begins_at_its_mark_is_taken(lab, where):
    lab.pipeline(REFUSE, where=where)
    assert "effectively once" in lab.pz("plan").out


def test_a_place_without_a_ledger_is_refused(lab):
    lab.pipeline("sink('lake', 'orders', duplicates: 'refuse')")
    assert "PZ0324" in lab.pz("plan", code=2).err


def test_an_engine_or_a_target_without_a_ledger_is_refused():
    from types import SimpleNamespace

    from pz_core.engines.duckdb.ledger import attached_ledger, session_ledger
    from pz_core.run.ledger import Ledgers, _Output

    ledgers = Ledgers(SimpleNamespace(nodes=()), frozenset(), SimpleNamespace(name="thrift"), run_id="r", started_at="")
    output = _Output(SimpleNamespace(name="mart.orders"), None, LedgerClaim("p", "mart.orders"), ())
    ledgers._outputs["x"] = output
    for call in (
        lambda: ledgers.claim("x", None),
        lambda: attached_ledger(SimpleNamespace(ledger=None), None, "mart.orders", "n"),
        lambda: session_ledger(object(), "mart.orders", "n"),
    ):
        with pytest.raises(PzError) as caught:
            call()
        assert caught.value.code == "PZ0324" and caught.value.hint


# --- judgement -------------------------------------------------------------------------------------------------------


def _claim(*marks, **named):
    return LedgerClaim("p", "mart.orders", marks, "r2", frozenset({"r2"}), **named)


@pytest.mark.parametrize(
    "base, upper, entry, expected",
    [
        (None, "5", None, None),
        ("3", "5", "3", None),
        ("3", "5", "2", None),
        ("3", "5", "5", "r1"),
        ("3", "5", "9", "r1"),
        ("3", "10", "9", "PZ0520"),
        (None, "10", "9", "PZ0520"),
        ("3", None, "9", None),
    ],
)
def test_a_batch_is_judged_by_where_it_begins_and_ends(base, upper, entry, expected):
    entries = () if entry is None else (LedgerEntry("shop.orders", "id", "bigint", entry, "r1"),)
    claim = _claim(LedgerMark("shop.orders", "id", "int" if upper else None, base, upper))
    try:
        found = delivered_by(claim, LedgerState(entries))
    except PzError as error:
        found = error.code
    assert found == expected


def test_one_of_two_runs_that_meet_is_told(lab):
    mark = LedgerMark("shop.orders", "id", "bigint", "3", "5")
    theirs = LedgerEntry("shop.orders", "id", "bigint", "5", "r1")
    with pytest.raises(PzError) as caught:
        refuse_lost_race(_claim(mark), (theirs,), 2)
    assert caught.value.code == "PZ0520"
    refuse_lost_race(_claim(mark), (LedgerEntry("shop.orders", "id", "bigint", "5", "r2", 2),), 2)
