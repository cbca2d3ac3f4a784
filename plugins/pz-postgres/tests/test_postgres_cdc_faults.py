"""Change capture where something goes wrong: killed runs, lost slots, missing rights; and what ``pz cdc`` says."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pz_postgres.capture_wire import Decoder, NotCaptured, position_of, position_text

SLOTS = "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"


def slot_of(address: Any) -> str:
    [(name,)] = address.run(SLOTS)
    return str(name)


# --- killed ----------------------------------------------------------------------------------------------------------

#: Where a run is killed: a function of the product, and whether before or after it has done its work.
POINTS = {
    "slot made": ("pz_postgres.capture", "create_slot", "after"),
    "rows adopted": ("pz_postgres.capture.CapturedRead", "_adopt", "after"),
    "log fetched": ("pz_postgres.capture.CapturedRead", "_fetch", "after"),
    "changes split": ("pz_core.engines.duckdb.land_stream", "split_changes", "after"),
    "before the commit": ("pz_postgres.session.TableSession", "commit", "before"),
    "after the commit": ("pz_postgres.session.TableSession", "commit", "after"),
    "before the state": ("pz_core.run.feeds.Tokens", "advance", "before"),
    "after the state": ("pz_core.run.feeds.Tokens", "advance", "after"),
    "slot advanced": ("pz_postgres.capture.CapturedRead", "_advance", "after"),
}


def points(*quick: str, without: tuple[str, ...]) -> list[Any]:
    """Points to kill at; those that are not quick only with the counts that take longer."""
    return [
        pytest.param(name, marks=() if name in quick else pytest.mark.deep) for name in POINTS if name not in without
    ]


_KILLER = """
import functools, importlib, os, signal, sys
home, name, when = sys.argv[1:4]
try:
    owner = importlib.import_module(home)
except ModuleNotFoundError:
    module, _, cls = home.rpartition(".")
    owner = getattr(importlib.import_module(module), cls)
real = getattr(owner, name)
def dying(*args, **kwargs):
    if when == "after":
        real(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, dying)
from pz_core.cli.main import main
main(["run", *sys.argv[4:]])
"""


def killed(shop: Any, point: str, *argv: str) -> bool:
    """Run until the point, if the run comes there; whether it did."""
    import sys

    done = subprocess.run(
        [sys.executable, "-c", _KILLER, *POINTS[point], *argv],
        cwd=shop.project.folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode in (0, -9), done.stderr
    return done.returncode == -9


@pytest.mark.parametrize("point", points(without=("log fetched", "slot advanced")))
def test_a_first_run_killed_anywhere_is_made_good_by_the_next(shop: Callable[..., Any], pg18: Any, point: str) -> None:
    made = shop(place="postgres")
    assert killed(made, point)
    pg18.run("UPDATE orders SET name = 'x' WHERE id = 2")
    pg18.run("DELETE FROM orders WHERE id = 3")
    made.good()
    made.same()
    pg18.run("DELETE FROM orders WHERE id = 4")
    made.good()
    made.same()
    assert len(pg18.run(SLOTS)) == 1


@pytest.mark.parametrize("point", points("after the commit", "slot advanced", without=("slot made", "rows adopted")))
def test_a_later_run_killed_anywhere_loses_nothing_and_applies_nothing_twice(
    shop: Callable[..., Any], pg18: Any, point: str
) -> None:
    made = shop(place="postgres")
    made.good()
    pg18.run("UPDATE orders SET n = n + 1 WHERE id IN (1, 2)")
    pg18.run("DELETE FROM orders WHERE id = 3")
    pg18.run("INSERT INTO orders VALUES (6, 'six', 6)")
    assert killed(made, point)
    pg18.run("INSERT INTO orders VALUES (3, 'anew', 3)")
    pg18.run("DELETE FROM orders WHERE id = 1")
    made.good()
    made.same()
    assert made.good()["cdc"] == {"inserts": 0, "updates": 0, "deletes": 0, "position": None}


@pytest.mark.deep
def test_a_full_refresh_that_is_killed_leaves_the_capture_as_it_was(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop(place="postgres")
    made.good()
    pg18.run("DELETE FROM orders WHERE id = 1")
    assert killed(made, "before the commit", "--full-refresh")
    made.good()
    made.same()


def test_a_full_refresh_takes_deletes_along_that_the_log_still_has(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop(place="postgres")
    made.good()
    pg18.run("DELETE FROM orders WHERE id IN (1, 2)")
    pg18.run("INSERT INTO orders VALUES (2, 'again', 2)")
    pg18.run("ALTER TABLE orders ADD COLUMN state text DEFAULT 'new'")
    assert "PZ0537" in made.refused()
    pg18.run("ALTER TABLE mart.orders ADD COLUMN state text")
    made.good("--full-refresh")
    made.same()
    pg18.run("DELETE FROM orders WHERE id = 3")
    pg18.run("ALTER TABLE orders ALTER COLUMN id TYPE bigint")
    pg18.run("ALTER TABLE mart.orders ALTER COLUMN id TYPE bigint")
    assert made.good("--full-refresh")["cdc"]["deletes"] == 0
    assert [r[0] for r in made.rows()] == [2, 3, 4, 5]


def test_a_failed_output_holds_the_place_and_a_retry_applies_what_was_read(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop(place="postgres")
    made.good()
    pg18.run("DELETE FROM orders WHERE id = 1")
    pg18.run("UPDATE orders SET name = 'x' WHERE id = 2")
    pg18.run("ALTER TABLE mart.orders ADD CHECK (name <> 'x')")
    assert made.run().code == 1 and len(made.rows()) == 5
    pg18.run("ALTER TABLE mart.orders DROP CONSTRAINT orders_name_check")
    pg18.run("DELETE FROM orders WHERE id = 4")
    said = made.project.run("retry")
    assert said.code == 0, said.err
    read = next(n for n in made.project.results()["nodes"] if n["kind"] == "SourceLoad")
    assert read["provenance"] == "reused"
    assert [r[:2] for r in made.rows()] == [(2, "x"), (3, "row 3"), (4, "row 4"), (5, "row 5")]
    assert made.good()["cdc"]["deletes"] == 1
    made.same()


# --- lost ------------------------------------------------------------------------------------------------------------


def advance(address: Any) -> None:
    address.run(f"SELECT pg_replication_slot_advance('{slot_of(address)}', pg_current_wal_flush_lsn())")


@pytest.mark.parametrize(
    ("happens", "told"),
    [
        ("SELECT pg_drop_replication_slot('{slot}')", "is gone"),
        ("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())", "behind the stored place"),
        pytest.param(
            "SELECT pg_drop_replication_slot('{slot}'); "
            "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
            "behind the stored place",
            marks=pytest.mark.deep,
        ),
        pytest.param("DROP PUBLICATION {slot}", "removed or made anew", marks=pytest.mark.deep),
        pytest.param(
            "DROP PUBLICATION {slot}; CREATE PUBLICATION {slot} FOR TABLE orders "
            "WITH (publish_via_partition_root = true)",
            "removed or made anew",
            marks=pytest.mark.deep,
        ),
        pytest.param("ALTER PUBLICATION {slot} SET (publish = 'insert')", "does not publish", marks=pytest.mark.deep),
    ],
)
def test_a_gap_in_the_log_is_told_and_a_full_refresh_mends_it(
    shop: Callable[..., Any], pg18: Any, happens: str, told: str
) -> None:
    made = shop(place="postgres")
    made.good()
    pg18.run("UPDATE orders SET name = 'missed' WHERE id = 1")
    pg18.run("SET synchronous_commit = on")
    with pg18.connect() as held:
        held.execute("SET synchronous_commit = on")
        held.execute("UPDATE orders SET name = 'missed too' WHERE id = 1")
    slot = slot_of(pg18)
    for sql in happens.format(slot=slot).split("; "):
        pg18.run(sql)
    said = made.refused()
    assert "PZ0537" in said and told in said and "--full-refresh" in said
    status = made.project.run("cdc", "status")
    assert status.code == 1 and "unhealthy" in status.out
    if "SET (publish" in happens:
        pg18.run(f"DROP PUBLICATION {slot}")
    made.good("--full-refresh")
    made.same()
    pg18.run("DELETE FROM orders WHERE id = 2")
    made.good()
    made.same()
    assert made.project.run("cdc", "status").code == 0


@pytest.mark.deep
def test_a_token_of_something_else_is_refused(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop()
    made.good()
    path = made.project.folder / ".pz" / "state" / "sync-state.json"
    text = path.read_text()
    found = json.loads(text)
    entry = next(iter(found[next(k for k in found if k != "version")].values()))
    token = json.loads(entry["token"])
    for broken in ("x", json.dumps({**token, "lsn": "FFFFFFF/0"}), json.dumps({**token, "slot": "other"})):
        path.write_text(text.replace(json.dumps(entry["token"]), json.dumps(broken)))
        assert "PZ0537" in made.refused()


# --- what must hold at the place -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("ALTER TABLE orders DROP CONSTRAINT orders_pkey", "no primary key"),
        ("ALTER TABLE orders REPLICA IDENTITY NOTHING", "REPLICA IDENTITY NOTHING"),
        ("ALTER TABLE orders ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED", "generated columns"),
        ('ALTER TABLE orders ADD COLUMN "_pz_op" text', "a name of pz's own"),
        ("ALTER TABLE orders SET UNLOGGED", "no table whose changes are logged"),
    ],
)
def test_a_table_whose_changes_cannot_be_known_is_refused(
    shop: Callable[..., Any], pg18: Any, sql: str, told: str
) -> None:
    pg18.run(sql)
    said = shop().refused()
    assert "PZ0338" in said and told in said and "hint" in said


@pytest.mark.deep
def test_a_unique_index_can_be_the_key(shop: Callable[..., Any], pg18: Any) -> None:
    pg18.run("ALTER TABLE orders DROP CONSTRAINT orders_pkey")
    pg18.run("ALTER TABLE orders ALTER name SET NOT NULL")
    pg18.run("CREATE UNIQUE INDEX by_name ON orders (name)")
    pg18.run("ALTER TABLE orders REPLICA IDENTITY USING INDEX by_name")
    made = shop(keys=["name"])
    made.good()
    pg18.run("DELETE FROM orders WHERE id = 1")
    pg18.run("UPDATE orders SET name = 'other' WHERE id = 2")
    made.good()
    made.same()


def test_a_role_without_the_rights_is_told_the_statements(tmp_path: Path, pg18: Any, make_shop: Any) -> None:
    role = f"reader_{pg18.database}"
    pg18.run("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    pg18.run("INSERT INTO orders VALUES (1, 'a')")
    pg18.run(f"CREATE ROLE {role} LOGIN PASSWORD 'pw-reader'")
    try:
        pg18.run(f"GRANT SELECT ON orders TO {role}")
        made = make_shop(tmp_path, pg18)
        connections = made.project.folder / "connections.yml"
        text = re.sub(r"user: \S+", f"user: {role}", connections.read_text())
        connections.write_text(re.sub(r"password: \S+", "password: pw-reader", text))
        said = made.refused()
        assert "PZ0338" in said and "CREATE PUBLICATION" in said
        pg18.run("CREATE PUBLICATION by_hand FOR TABLE orders")
        text = connections.read_text().replace("mode: cdc", "mode: cdc\n          publication: by_hand", 1)
        connections.write_text(text.replace("          publication", "        publication"))
        said = made.refused()
        assert "PZ0338" in said and "REPLICATION" in said
        pg18.run(f"ALTER ROLE {role} REPLICATION")
        made.good()
        pg18.run("UPDATE orders SET name = 'b'")
        made.good()
        made.same()
        said = made.project.run("cdc", "drop", "shop.orders", "--yes")
        assert said.code == 0 and "publication" not in said.out
        assert pg18.run("SELECT pubname::text FROM pg_publication") == [("by_hand",)]
    finally:
        pg18.run(f"DROP OWNED BY {role}")
        pg18.run(f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("read", "sync", "code"),
    [
        ({"query": "SELECT 1 AS id"}, {}, "PZ0353"),
        ({}, {"slot": "Not-A-Slot"}, "PZ0353"),
        ({"partition_column": "id", "partitions": 2}, {}, "PZ0316"),
    ],
)
def test_options_that_do_not_go_with_a_capture_are_refused_by_the_plan(
    shop: Callable[..., Any], read: dict[str, Any], sync: dict[str, Any], code: str
) -> None:
    made = shop(read=read, sync=sync)
    said = made.project.run("plan")
    assert said.code == 2 and code in said.err
    assert made.project.runs() == []


def test_the_same_on_the_older_server(tmp_path: Path, pg16: Any, make_shop: Any) -> None:
    pg16.run("CREATE TABLE orders (id int PRIMARY KEY, name text, long text)")
    pg16.run("ALTER TABLE orders ALTER COLUMN long SET STORAGE EXTERNAL")
    pg16.run("INSERT INTO orders SELECT i, 'row', repeat('x', 9000) FROM generate_series(1, 5) i")
    made = make_shop(tmp_path, pg16, place="postgres", sync={"slot": "my_slot"})
    made.good()
    pg16.run("UPDATE orders SET name = 'b' WHERE id = 2")
    pg16.run("DELETE FROM orders WHERE id = 3")
    made.good()
    made.same()
    assert slot_of(pg16) == "my_slot"
    assert made.project.run("cdc", "drop", "shop.orders", "--yes").code == 0
    assert pg16.run(SLOTS) == [] and pg16.run("SELECT FROM pg_publication") == []


# --- pz plan, pz cdc -------------------------------------------------------------------------------------------------


def test_the_plan_says_how_it_is_read_and_what_is_guaranteed(shop: Callable[..., Any]) -> None:
    nodes = shop().project.run("plan", "--json").json()["nodes"]
    read = next(n for n in nodes if n["kind"] == "SourceLoad")
    write = next(n for n in nodes if n["kind"] == "SinkWrite")
    assert "read=cdc" in read["reason"] and read["strategy"] == "arrow_stream"
    assert "effectively once" in json.dumps(write)


def test_status_tells_where_a_capture_stands_and_drop_ends_it(shop: Callable[..., Any], pg18: Any) -> None:
    made = shop()
    project = made.project
    said = project.run("cdc", "status")
    assert said.code == 0 and "not there" in said.out and "reads all rows" in said.out
    made.good()
    pg18.run("INSERT INTO orders SELECT i, 'x', 0 FROM generate_series(100, 500) i")
    [found] = project.run("cdc", "status", "--json").json()["datasets"]
    assert found["health"] == "healthy" and found["hasStoredToken"] and found["lagBytes"] > 0
    assert found["position"] == f"slot {slot_of(pg18)}" and found["runId"] == project.runs()[-1].name
    assert "slot" not in json.dumps(project.run("state", "show", "--json").json())
    for argv, code in (((), "PZ0507"), (("a", "b"), "PZ0507"), (("shop",), "PZ0507"), (("shop.other",), "PZ0508")):
        said = project.run("cdc", "drop", *argv, "--yes")
        assert said.code == 2 and said.errors == (code,)
    assert project.run("cdc", "drop", "shop.orders").errors == ("PZ0516",)
    said = project.run("cdc", "drop", "shop.orders", "--dry-run")
    assert said.code == 0 and "would be removed" in said.out and len(pg18.run(SLOTS)) == 1
    done = project.run("cdc", "drop", "shop.orders", "--yes", "--reason", "why not", "--json")
    assert done.json()["applied"] and done.json()["hadStoredToken"] and len(done.json()["removes"]) == 2
    assert pg18.run(SLOTS) == [] and pg18.run("SELECT FROM pg_publication") == []
    assert "why not" in (project.folder / ".pz" / "state" / "audit.jsonl").read_text()
    assert project.run("cdc", "drop", "shop.orders", "--yes").code == 0
    assert made.good()["cdc"]["inserts"] == 406
    made.same()


def test_without_captured_datasets_there_is_nothing_to_tell(shop: Callable[..., Any]) -> None:
    made = shop()
    text = (made.project.folder / "connections.yml").read_text()
    (made.project.folder / "connections.yml").write_text(text.replace("mode: cdc", "mode: auto"))
    (made.project.folder / "pipelines" / "orders.sql").unlink()
    said = made.project.run("cdc", "status")
    assert said.code == 0 and "no cdc datasets" in said.out


# --- the log's messages ----------------------------------------------------------------------------------------------


def test_a_message_of_an_unknown_kind_is_refused_and_places_keep_their_order() -> None:
    with pytest.raises(NotCaptured, match="kind"):
        list(Decoder(1, ("id",)).take(b"S123"))
    assert position_text(position_of("1A/FF00")) == "1A/FF00" and position_of("1/0") > position_of("0/FFFFFFFF")
