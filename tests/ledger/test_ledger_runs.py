"""``duplicates: 'refuse'``: after a crash between commit and state no row is lost and none is there twice."""

from __future__ import annotations

import pytest

REFUSE = "sink('mart', 'orders', duplicates: 'refuse')"
TWIN = "sink('twin', 'orders', duplicates: 'refuse')"
MERGE = "sink('twin', 'merged', strategy: 'merge', keys: ['id'])"

both_tiers = pytest.mark.parametrize("universal", [False, True], ids=["native", "universal"])
#: Batches take their turn in ``make deep`` where only values differ.
native_first = pytest.mark.parametrize(
    "universal", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["native", "universal"]
)


@both_tiers
def test_a_slice_that_the_target_has_is_skipped_and_newer_rows_wait_for_the_next_run(lab, universal):
    lab.project(universal=universal)
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.pz("run")
    lab.feed(3, 4)
    lab.run_and_forget()
    assert (lab.stored(), lab.ids()) == ("2", [1, 2, 3, 4])
    lab.feed(5, 6)
    said = lab.pz("run")
    assert "mart.orders: the target has these rows already" in said.err
    assert "newer rows wait for the next run" in said.err
    sink = lab.node("mart.orders")
    assert (sink["rows"], sink["provenance"]) == (0, "already_delivered")
    assert sink["accounting"] == {"staged": 2, "written": 0, "rejected": 0, "skipped": 2}
    assert lab.node("src_shop__orders")["rows"] == 2  # exactly the slice, not rows 5 and 6
    assert (lab.stored(), lab.ids()) == ("4", [1, 2, 3, 4])
    lab.pz("run")
    assert (lab.stored(), lab.ids()) == ("6", [1, 2, 3, 4, 5, 6])
    lab.pz("run")
    assert (lab.stored(), lab.ids()) == ("6", [1, 2, 3, 4, 5, 6])


@native_first
def test_a_first_run_that_was_lost_is_replayed_from_the_beginning(lab, universal):
    lab.project(universal=universal)
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.run_and_forget()
    lab.feed(3)
    lab.pz("run")
    assert (lab.stored(), lab.ids()) == ("2", [1, 2])
    lab.pz("run")
    assert (lab.stored(), lab.ids()) == ("3", [1, 2, 3])


def test_until_caught_up_goes_on_after_a_replay(lab):
    lab.pipeline(REFUSE)
    lab.feed(1)
    lab.run_and_forget()
    lab.feed(2)
    said = lab.pz("run", "--until-caught-up")
    assert "2 passes: nothing more is left to read" in said.err
    assert (lab.stored(), lab.ids()) == ("2", [1, 2])


@both_tiers
def test_outputs_that_lack_the_slice_get_exactly_it(lab, universal):
    lab.project(universal=universal)
    lab.pipeline(REFUSE, TWIN, MERGE)
    lab.write("twin.duckdb", "no database")
    lab.feed(1, 2)
    lab.pz("run", code=1)
    (lab.root / "twin.duckdb").unlink()
    lab.feed(3)
    lab.pz("run")
    assert lab.node("mart.orders")["provenance"] == "already_delivered"
    assert lab.ids() == lab.ids(database="twin") == lab.ids("merged", "twin") == [1, 2]
    lab.pz("run")
    assert lab.ids() == lab.ids(database="twin") == lab.ids("merged", "twin") == [1, 2, 3]
    assert lab.stored() == "3"


def test_outputs_that_are_at_different_places_come_together(lab):
    lab.pipeline(REFUSE, TWIN)
    lab.feed(1)
    lab.pz("run")
    lab.feed(2)
    lab.pz("run", "--select", "+mart.orders")
    lab.feed(3)
    lab.pz("run", "--select", "+twin.orders")
    assert (lab.ids(), lab.ids(database="twin"), lab.stored()) == ([1, 2], [1, 2, 3], "1")
    lab.feed(4)
    lab.pz("run")
    assert lab.stored() == "2"
    lab.pz("run")
    assert (lab.ids(), lab.ids(database="twin"), lab.stored()) == ([1, 2, 3], [1, 2, 3], "3")
    lab.pz("run")
    assert (lab.ids(), lab.ids(database="twin"), lab.stored()) == ([1, 2, 3, 4], [1, 2, 3, 4], "4")


@native_first
@pytest.mark.parametrize(
    "kind, values",
    [
        ("timestamp", ["2026-01-01T00:00:00.000001", "2026-01-01T00:00:00.000002", "2026-01-01T00:00:00.000003"]),
        ("date", ["2026-01-01", "2026-01-02", "2026-01-03"]),
        (
            "decimal(38,9)",
            ["0.1", "12345678901234567890123456789.0", "12345678901234567890123456789.000000001"],
        ),
    ],
)
def test_a_slice_is_told_to_the_last_digit(lab, universal, kind, values):
    lab.project(universal=universal)
    lab.connections(cursor=kind)
    lab.pipeline(REFUSE)
    lab.feed(values[0])
    lab.pz("run")
    lab.feed(values[1])
    lab.run_and_forget()
    lab.feed(values[2])
    lab.pz("run")
    assert len(lab.ids()) == 2
    lab.pz("run")
    lab.pz("run")
    assert len(lab.ids()) == 3


def test_rows_of_one_cursor_value_stay_together(lab):
    lab.pipeline(REFUSE)
    lab.feed(1, 2, 2)
    lab.run_and_forget()
    lab.feed(2, 3)  # a late row that ties with the last one is below the mark, with or without a crash
    lab.pz("run")
    lab.pz("run")
    assert (lab.ids(), lab.stored()) == ([1, 2, 2, 3], "3")


def test_rows_without_a_cursor_are_there_once(lab):
    lab.pipeline(REFUSE, TWIN)
    lab.write("twin.duckdb", "no database")
    lab.write("in/orders0.csv", "id,v\n1,x\n,y\n")
    lab.pz("run", code=1)
    (lab.root / "twin.duckdb").unlink()
    lab.pz("run")
    lab.pz("run")
    assert lab.ids() == lab.ids(database="twin") == [1, None]


def test_rows_of_which_none_has_a_cursor_are_refused_until_one_has(lab):
    lab.pipeline(REFUSE)
    lab.write("in/orders0.csv", "id,v\n,y\n")
    said = lab.pz("run", code=1)
    assert "PZ0505" in said.err and "came without a value in cursor 'id' and none with one" in said.err
    lab.feed(1)
    lab.pz("run")
    lab.pz("run")
    assert lab.ids() == [1, None]


def test_a_source_that_has_lost_the_last_row_does_not_hold_the_mark_back(lab):
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.run_and_forget()
    lab.write("in/orders0.csv", "id,v\n1,x\n")
    lab.feed(3)
    lab.pz("run")
    assert lab.stored() == "2"
    lab.pz("run")
    assert (lab.ids(), lab.stored()) == ([1, 2, 3], "3")


def test_windows_go_on_where_the_ledger_is(lab):
    sync = ", sync: {mode: incremental, cursor: id, max_window: 10, initial: 0, until: 40}"
    lab.connections(sync=sync)
    lab.pipeline(REFUSE, where="true")
    lab.feed(10, 11, 25, 34)
    lab.pz("run")
    lab.run_and_forget()
    assert (lab.stored(), lab.ids()) == ("10", [10, 11])
    lab.pz("run", "--until-caught-up")
    assert (lab.stored(), lab.ids()) == ("40", [10, 11, 25, 34])


@both_tiers
def test_an_answer_to_a_commit_that_was_lost_is_not_delivered_twice(lab, universal, monkeypatch):
    from pz_duckdb.sink import TableSession

    from pz_core.contract.connector import ConnectorError

    lab.project(universal=universal)
    lab.connections()
    text = (lab.root / "connections.yml").read_text()
    retry = "mart.duckdb, retry: {max_attempts: 2, base_delay: 10ms, max_delay: 10ms}}"
    lab.write("connections.yml", text.replace("mart.duckdb}", retry))
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lost = []
    if universal:
        commit = TableSession.commit

        def lose(session):
            receipt = commit(session)
            if session._rows and not lost:
                lost.append(1)
                raise ConnectorError("the line went dead", transient=True)
            return receipt

        monkeypatch.setattr(TableSession, "commit", lose)
    else:
        from pz_core.engines.duckdb import drain

        load = drain.load_table

        def lose(*args):
            result = load(*args)
            if not lost:
                lost.append(1)
                raise ConnectorError("the line went dead", transient=True)
            return result

        monkeypatch.setattr(drain, "load_table", lose)
    said = lab.pz("run")
    assert lost and "an attempt of this run whose answer was lost" in said.err
    assert lab.node("mart.orders")["rows"] == 2
    assert (lab.ids(), lab.stored()) == ([1, 2], "2")


def test_a_full_read_is_delivered_once_a_run_whatever_its_attempts(lab, monkeypatch):
    from pz_core.contract.connector import ConnectorError
    from pz_core.engines.duckdb import drain

    lab.pipeline(REFUSE, where="true")
    assert "mart.orders at least once (every run adds all rows again" in lab.pz("plan").out
    text = (lab.root / "connections.yml").read_text()
    retry = "mart.duckdb, retry: {max_attempts: 2, base_delay: 10ms, max_delay: 10ms}}"
    lab.write("connections.yml", text.replace("mart.duckdb}", retry))
    lab.feed(1)
    load, lost = drain.load_table, []

    def lose(*args):
        result = load(*args)
        if not lost:
            lost.append(1)
            raise ConnectorError("the line went dead", transient=True)
        return result

    monkeypatch.setattr(drain, "load_table", lose)
    lab.pz("run")
    assert lost and lab.ids() == [1]
    lab.pz("run")
    assert lab.ids() == [1, 1]


def test_two_projects_on_one_table_do_not_mix(lab, tmp_path):
    lab.pipeline(REFUSE)
    lab.feed(1, 2)
    lab.run_and_forget()
    lab.project(name="other")
    lab.pz("run")  # another project, whose rows are its own
    assert lab.ids() == [1, 1, 2, 2]
    lab.project(name="led")
    lab.state_file.unlink()
    lab.pz("run")
    assert lab.ids() == [1, 1, 2, 2]


def test_two_outputs_of_two_pipelines_do_not_mix(lab):
    lab.pipeline(REFUSE)
    lab.pipeline(
        "sink('mart', 'others', duplicates: 'refuse')",
        where="id > {{ watermark('shop', 'others') }}",
        name="q",
        entity="others",
    )
    lab.feed(1, 2)
    lab.feed(7, file="others")
    lab.pz("run", "--all")
    lab.feed(3)
    lab.run_and_forget("p")
    lab.feed(8, file="others")
    lab.pz("run", "--all")
    assert (lab.ids(), lab.ids("others")) == ([1, 2, 3], [7, 8])
    assert (lab.stored(), lab.stored("shop.others")) == ("3", "8")


def test_the_ledger_lies_beside_its_target(lab):
    lab.pipeline("sink('mart', 'sales.orders', duplicates: 'refuse')")
    lab.feed(1)
    lab.pz("run")
    tables = lab.ask("select schema_name, table_name from duckdb_tables() order by all")
    assert tables == [("sales", "_pz_ledger"), ("sales", "orders")]


def test_nothing_is_made_where_nobody_refuses(lab):
    lab.pipeline("sink('mart', 'orders', duplicates: 'accept')")
    lab.feed(1)
    lab.pz("run")
    assert lab.ask("select table_name from duckdb_tables()") == [("orders",)]
