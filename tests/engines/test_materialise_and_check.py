from __future__ import annotations

import pytest

from pz_core.contract.check import CheckQuery
from pz_core.contract.engine import Cancelled
from pz_core.contract.refusals import refusal
from pz_core.errors import PzError


def test_a_table_and_a_view(bench):
    table = bench.make("-- rows\nSELECT i, i * 2 AS d FROM range(3) r(i); -- end\n", "t")
    view = bench.make("SELECT i FROM staging.t -- no line end", "v", as_view=True)
    assert table.rows == 3 and [(c.name, c.type) for c in table.columns] == [("i", "BIGINT"), ("d", "BIGINT")]
    assert view.rows is None and [c.name for c in view.columns] == ["i"]


@pytest.mark.parametrize("as_view", [True, False])
def test_a_relation_may_change_its_kind(bench, as_view):
    bench.make("SELECT 1 AS a", as_view=as_view)
    bench.make("SELECT 2 AS a", as_view=not as_view)
    assert bench.ask("SELECT a FROM staging.orders") == [(2,)]


def test_a_failed_query_leaves_what_was_there(bench):
    bench.make("SELECT 1 AS a")
    with pytest.raises(PzError):
        bench.make("SELECT error('no')")
    assert bench.ask("SELECT a FROM staging.orders") == [(1,)]


def test_the_error_is_duckdbs_own_without_the_echo(bench):
    with pytest.raises(PzError) as caught:
        bench.make("SELECT\n  'a secret literal' AS x,\n  cast('12kg' AS integer) AS n")
    error = caught.value
    assert error.code == "PZ0501"
    assert error.message.startswith("Conversion Error: Could not convert string '12kg' to INT32")
    assert "LINE" not in error.message and "a secret literal" not in str(error) and "^" not in error.message
    assert error.hint and error.where.node == "orders"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 1; SELECT 2", "2 statements"),
        ("SELECT 1; DROP TABLE staging.keep", "2 statements"),
        ("DROP TABLE staging.keep", "no query"),
        ("INSERT INTO staging.keep SELECT 1", "no query"),
        ("  -- nothing\n", "empty"),
        ("PIVOT staging.keep ON a USING sum(a); DROP TABLE staging.keep", "statements"),
    ],
)
def test_anything_but_one_query_is_refused_before_it_runs(bench, sql, words):
    bench.make("SELECT 7 AS a", "keep")
    with pytest.raises(PzError, match=words) as caught:
        bench.make(sql)
    assert caught.value.code == "PZ0501"
    assert bench.ask("SELECT a FROM staging.keep") == [(7,)]


def test_a_pivot_is_one_query(bench):
    bench.make("SELECT i % 2 AS k, i FROM range(4) r(i)", "long")
    assert bench.make("PIVOT staging.long ON k USING sum(i)").rows == 1


def test_a_guard_inside_the_sql_fails_under_its_own_code(bench):
    with pytest.raises(PzError) as caught:
        bench.make(f"SELECT {refusal('PZ0812', quote('column n, row 3'), quote('declare it'))}")
    assert (caught.value.code, caught.value.message, caught.value.hint) == ("PZ0812", "column n, row 3", "declare it")


def quote(text: str) -> str:
    return f"'{text}'"


def test_out_of_memory_says_which_setting_to_raise(fakes, tmp_path):
    bench = fakes.Bench(tmp_path, memory_limit="20MB", threads=1)
    bench.engine._session._main.execute("SET GLOBAL max_temp_directory_size = '0KB'")
    with pytest.raises(PzError, match=r"raise engine\.duckdb\.memory_limit"):
        bench.make("SELECT list(i ORDER BY i DESC) AS l FROM range(20000000) r(i)")
    bench.engine.close()


# --- checks ---------------------------------------------------------------------------------------------------------


def test_violations_are_counted_and_shown_as_text(bench):
    bench.make(
        "SELECT * FROM (VALUES (1, date '2026-01-02', NULL, timestamptz '2026-01-01 01:00:00+02', 1.50::decimal(9,2)), "
        "(2, NULL, true, NULL, NULL)) v(id, day, flag, seen, amount)"
    )
    query = CheckQuery(
        "SELECT count(*) FROM {relation}", "SELECT *, id AS id FROM {relation} ORDER BY 1 -- all", unit="rows"
    )
    outcome = bench.check(query)
    assert (outcome.violations, outcome.unit) == (2, "rows")
    assert outcome.sample[0] == (
        ("id", "1"), ("day", "2026-01-02"), ("flag", None), ("seen", "2025-12-31 23:00:00+00"),
        ("amount", "1.50"), ("id_1", "1"),
    )  # fmt: skip


def test_samples_are_cut_at_the_limit_and_only_asked_for_where_allowed(bench):
    bench.make("SELECT i FROM range(100) r(i)")
    broken = CheckQuery("SELECT count(*) FROM {relation}", "SELECT error('asked')", "SELECT 7 AS seen, 9 AS allowed")
    assert bench.check(broken, samples=False).detail == (("seen", "7"), ("allowed", "9"))
    limited = CheckQuery("SELECT count(*) FROM {relation}", "SELECT i FROM {relation}", sample_limit=3)
    assert len(bench.check(limited).sample) == 3
    passing = CheckQuery("SELECT 0", "SELECT error('asked')")
    assert bench.check(passing).sample == ()


@pytest.mark.parametrize(
    "sql", ["SELECT count(*) FROM staging.nowhere", "SELECT 1; DROP TABLE staging.orders", "DROP TABLE staging.orders"]
)
def test_a_check_that_cannot_run_is_a_fault_and_changes_nothing(bench, sql):
    bench.make("SELECT 1 AS a")
    with pytest.raises(PzError) as caught:
        bench.check(CheckQuery(sql))
    assert caught.value.code == "PZ0501" and caught.value.where.node == "check_it"
    assert bench.relations() == ["orders"]


def test_a_cancelled_check_and_pipeline_stop(bench, fakes):
    import threading
    import time

    for call in (
        lambda c: bench.make("SELECT sum(i) FROM range(1000000000000) r(i)", control=c),
        lambda c: bench.make("SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)", control=c),
    ):
        control = fakes.Control()
        caught: list[BaseException] = []

        def run(call=call, control=control, caught=caught) -> None:
            try:
                call(control)
            except Exception as error:  # noqa: BLE001
                caught.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.05)
        control.cancel()
        thread.join(3)
        assert [type(e) for e in caught] == [Cancelled]
    assert bench.relations() == []


@pytest.mark.parametrize("as_view", [True, False])
def test_columns_that_duckdb_calls_otherwise_are_told(bench, as_view):
    made = bench.make('SELECT 1 AS a, 2 AS a, 3 AS "A", 4 AS b_1, 5 AS b', as_view=as_view)
    assert made.columns[0].name == "a" and len({c.name.lower() for c in made.columns}) == 5
    (note,) = made.notices
    assert note.severity == "note" and f"'a' is '{made.columns[1].name}'" in note.message and "b_1" not in note.message


def test_names_of_one_s_own_that_look_like_that_are_no_news(bench):
    assert bench.make("SELECT 1 AS a, 2 AS a_1, 3 AS b_2").notices == ()
