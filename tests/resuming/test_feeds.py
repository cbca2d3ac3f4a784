"""Feeds: a token that only its connector understands, kept byte for byte, and moved when every output has the rows."""

from __future__ import annotations

import json
import stat

import pytest

from pz_core.errors import PzError
from pz_core.state.local import LocalState

APPEND = "strategy: 'append', duplicates: 'accept', format: 'parquet'"
MART = "src: {connector: scripted, place: here}\nmart: {connector: duckdb, path: m.duckdb}\n"
SQL = "select id, v from {{ source('src', 'f') }}"


@pytest.fixture
def feed(lab):
    lab.world.feeds["f"] = [1, 2, 3]
    lab.pipeline("f", f"{{{{ sink('lake', 'f', {APPEND}) }}}}", SQL)
    return lab


def jammed(lab):
    """Two outputs, of which one fails until ``jam`` is away."""
    lab.write("jam", "not a directory")
    lab.pipeline("f", f"[{{{{ sink('lake', 'f', {APPEND}) }}}}, {{{{ sink('jammed', 'f', {APPEND}) }}}}]", SQL)


def tokens(lab):
    return [token for _, _, token in lab.world.reads]


def test_the_next_run_goes_on_from_the_token_of_the_one_before(feed):
    feed.pz("run")
    feed.world.feeds["f"] += [4, 5]
    feed.pz("run")
    assert tokens(feed) == [None, "at/3"] and feed.token("src.f") == "at/5"
    assert feed.rows("out/f/*.parquet") == [1, 2, 3, 4, 5]
    assert feed.nodes()["src_src__f"]["accounting"] == {"read": 2, "staged": 2, "rejected": 0}


@pytest.mark.parametrize(
    "token", ["", "ü\n\t\u0000\U0001f4a9 '\"\\", "https://x/y?$deltatoken=%41&s=a+b==", "x" * 100_000]
)
def test_a_token_is_kept_byte_for_byte(feed, token):
    seen = []
    feed.world.token = lambda place: token
    feed.places.Source._rows = lambda self, spec, *_: (
        seen.append(spec.token) or setattr(self, "_end", 1) or feed.places.batches([1], feed.places.SCHEMA)
    )
    feed.pz("run")
    feed.pz("run")
    assert seen == [None, token] and feed.token("src.f") == token


def test_the_token_is_shown_nowhere(feed):
    feed.world.token = lambda place: "tok-secret-7731"
    said = feed.pz("run", "--log-format", "json")
    shown = said.out + said.err + feed.pz("state", "show").out + feed.pz("state", "show", "src.f", "--json").out
    files = [p for p in feed.root.rglob("*") if p.is_file() and "duckdb" not in p.name]
    holders = sorted(p.name for p in files if "tok-secret-7731" in p.read_text(errors="replace"))
    assert "tok-secret-7731" not in shown and holders == ["sync-state.json", "tokens.json"]
    assert stat.S_IMODE((feed.last() / "tokens.json").stat().st_mode) == 0o600


def test_the_token_stays_until_every_output_has_the_rows(feed):
    jammed(feed)
    said = feed.pz("run", code=1)
    assert "src.f: the token stays: its output jammed.f failed" in said.err and feed.token("src.f") is None


def test_a_read_that_fails_is_not_asked_for_a_token(feed):
    asked = []
    feed.world.token = lambda place: asked.append(place) or f"at/{place}"
    feed.world.fail("f", None, feed.places.transient(), after=2)
    feed.world.fail("f", None, feed.places.final())
    feed.pz("run", code=1)
    assert asked == [] and feed.token("src.f") is None


def test_an_attempt_after_a_fault_goes_on_from_the_same_token(feed):
    feed.pz("run")
    feed.world.feeds["f"] += [4]
    feed.world.fail("f", None, feed.places.transient(), after=1)
    feed.pz("run")
    assert tokens(feed) == [None, "at/3", "at/3"] and feed.rows("out/f/*.parquet") == [1, 2, 3, 4]


def test_a_feed_that_gives_no_new_token_leaves_the_stored_one(feed):
    feed.pz("run")
    feed.world.token = lambda place: None
    feed.pz("run")
    assert feed.token("src.f") == "at/3"


def test_a_token_that_is_no_text_is_a_fault(feed):
    feed.world.token = lambda place: 7
    assert "gave a token that is no text" in feed.pz("run", code=1).err


def test_a_token_that_no_file_can_hold_is_a_fault(feed):
    feed.world.token = lambda place: "half a character \ud83d"
    assert "gave a token that is no text" in feed.pz("run", code=1).err and feed.token("src.f") is None


def test_a_feed_that_comes_in_partitions_is_refused(feed):
    feed.world.feed_parts = 2
    said = feed.pz("run", code=1)
    assert "PZ0316" in said.err and "2 partitions" in said.err and feed.world.reads == []


def test_an_expired_token_says_how_to_go_on_and_full_refresh_drops_it(feed):
    feed.pz("run")
    feed.world.expired.add("at/3")
    said = feed.pz("run", code=1)
    assert "PZ0537" in said.err and "--full-refresh" in said.err and "at/3" not in said.err
    assert len(feed.world.reads) == 2, "it is final, so there is one attempt"
    feed.world.feeds["f"] = [1, 2, 3, 4]
    feed.pz("run", "--full-refresh")
    assert tokens(feed) == [None, "at/3", None] and feed.token("src.f") == "at/4"


def test_a_full_refresh_that_ends_without_a_token_leaves_none_behind(feed):
    feed.pz("run")
    feed.world.token = lambda place: None
    feed.pz("run", "--full-refresh")
    assert feed.token("src.f") is None


def test_state_clear_makes_the_next_run_begin_anew_and_set_is_refused(feed):
    feed.pz("run")
    assert "PZ0515" in feed.pz("state", "set", "src.f", "--value", "at/9", "--yes", code=2).err
    shown = json.loads(feed.pz("state", "show", "--json").out)
    assert [(i["key"], i["hasStoredToken"]) for i in shown["syncState"]] == [("src.f", True)]
    feed.pz("state", "clear", "src.f", "--yes")
    feed.pz("run")
    assert tokens(feed) == [None, None]


# --- retry -----------------------------------------------------------------------------------------------------------


def test_a_retry_reuses_the_rows_of_a_feed_and_stores_where_they_ended(feed):
    jammed(feed)
    feed.pz("run", code=1)
    (feed.root / "jam").unlink()
    feed.world.feeds["f"] += [4]
    feed.world.reads.clear()
    feed.pz("retry")
    assert feed.world.reads == [] and feed.nodes()["src_src__f"]["provenance"] == "reused"
    assert feed.token("src.f") == "at/3"
    feed.pz("run")
    assert feed.rows("out/f/*.parquet") == feed.rows("jam/f/*.parquet") == [1, 2, 3, 4]


def test_a_retry_of_a_retry_still_knows_where_the_rows_ended(feed):
    jammed(feed)
    feed.pz("run", code=1)
    feed.pz("retry", code=1)
    (feed.root / "jam").unlink()
    feed.pz("retry")
    assert tokens(feed) == [None] and feed.token("src.f") == "at/3"


@pytest.mark.parametrize("how", ["cleared", "gone"])
def test_rows_of_a_feed_are_read_again_where_the_token_is_another_one_now(feed, how):
    feed.pz("run")
    jammed(feed)
    feed.world.feeds["f"] += [4]
    feed.pz("run", code=1)
    (feed.root / "jam").unlink()
    if how == "cleared":
        feed.pz("state", "clear", "src.f", "--yes")
    else:
        (feed.last() / "tokens.json").unlink()
    told = {"cleared": "its token was cleared since", "gone": "the token that it ended at is gone"}[how]
    assert told in feed.pz("retry").err
    assert tokens(feed) == [None, "at/3", None if how == "cleared" else "at/3"]


def test_a_token_that_could_not_be_stored_is_stored_by_the_retry_without_a_read(feed, monkeypatch):
    write = LocalState.write

    def broken(self, scope, key, payload, expected):
        if scope == "sync-state":
            raise PzError("PZ0532", "the disk is full: 'sync-state.json'", hint="free space")
        return write(self, scope, key, payload, expected)

    monkeypatch.setattr(LocalState, "write", broken)
    said = feed.pz("run", code=1)
    assert "PZ0527" in said.err and "src.f (PZ0532" in said.err
    assert "PZ0527" in feed.pz("retry", code=1).err
    monkeypatch.setattr(LocalState, "write", write)
    said = feed.pz("retry")
    assert "1 token is still to be stored" in said.err
    assert tokens(feed) == [None] and feed.token("src.f") == "at/3" and feed.rows("out/f/*.parquet") == [1, 2, 3]


def test_a_token_that_somebody_else_moved_is_not_overwritten(feed):
    feed.pz("run")
    feed.world.feeds["f"] += [4]
    path = feed.root / ".pz" / "state" / "sync-state.json"

    def meanwhile(place):
        path.write_text(json.dumps({"version": 1, "syncState": {"src.f": {"token": "at/9", "runId": "x"}}}))
        return f"at/{place}"

    feed.world.token = meanwhile
    assert "PZ0520" in feed.pz("run", code=1).err and feed.token("src.f") == "at/9"
    said = feed.pz("retry")
    assert "the token recorded by run" in said.err and "is dropped: its token is another one now" in said.err
    assert feed.token("src.f") == "at/9"


def test_a_damaged_entry_counts_as_nothing_stored_and_is_told(feed):
    feed.pz("run")
    path = feed.root / ".pz" / "state" / "sync-state.json"
    path.write_text(json.dumps({"version": 1, "syncState": {"src.f": {"runId": "x"}}}))
    assert "the stored token cannot be read" in feed.pz("run").err
    assert tokens(feed) == [None, None] and feed.token("src.f") == "at/3"


def test_clean_takes_tokens_away_with_the_rows(feed):
    feed.pz("run")
    feed.pz("clean", "--keep-last", "0")
    assert sorted(p.name for p in feed.last().iterdir() if p.name != ".lock") == ["run_results.json"]
    feed.pz("run")
    assert tokens(feed) == [None, "at/3"]


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_plan_says_that_a_feed_is_read_in_batches_and_what_a_second_delivery_does(feed):
    said = json.loads(feed.pz("plan", "--json").out)
    nodes = {n["name"]: n for n in said["nodes"]}
    read, sink = nodes["src_src__f"], nodes["lake.f"]
    assert read["readShape"] == "feed" and read["partitions"] == 1 and read["tier"] == "universal"
    assert "goes on from a token" in read["reason"]
    assert sink["guarantee"] == "at least once" and "adds its rows again" in sink["onRetry"]


@pytest.mark.parametrize(
    ("sink", "code"),
    [
        ("strategy: 'replace', format: 'parquet'", "PZ0335"),
        ("strategy: 'append', format: 'parquet'", "PZ0214"),
        ("strategy: 'append', duplicates: 'refuse', format: 'parquet'", "PZ0324"),
    ],
)
def test_loads_that_do_not_go_with_a_feed_are_refused_before_a_run(feed, sink, code):
    feed.pipeline("f", f"{{{{ sink('lake', 'f', {sink}) }}}}", SQL)
    assert code in feed.pz("run", code=2).err
    assert not (feed.root / ".pz" / "runs").exists()


def test_a_feed_below_a_keyed_strategy_is_delivered_once(feed):
    feed.write(
        "connections.yml", "src: {connector: scripted, place: here}\nmart: {connector: duckdb, path: m.duckdb}\n"
    )
    feed.pipeline("f", "{{ sink('mart', 'f', strategy: 'merge', keys: ['id']) }}", SQL)
    nodes = {n["name"]: n for n in json.loads(feed.pz("plan", "--json").out)["nodes"]}
    assert nodes["mart.f"]["guarantee"] == "effectively once"


def test_a_feed_has_no_cursor_and_no_partitions(feed):
    sql = SQL + " where id > {{ watermark('src', 'f') }}"
    feed.pipeline("f", f"{{{{ sink('lake', 'f', {APPEND}) }}}}", sql)
    assert "PZ0315" in feed.pz("run", code=2).err
    feed.pipeline(
        "f",
        f"{{{{ sink('lake', 'f', {APPEND}) }}}}",
        "select id from {{ source('src', 'f', partition_column: 'id', partitions: 2) }}",
    )
    assert "PZ0316" in feed.pz("run", code=2).err


def test_a_feed_of_a_connector_that_only_works_through_duckdb_is_refused(feed, monkeypatch):
    from msgspec.structs import replace

    able = replace(feed.places.Scripted.capabilities, universal_read=False, native_read=True)
    monkeypatch.setattr(feed.places.Scripted, "capabilities", able)
    assert "PZ0363" in feed.pz("run", code=2).err


def test_a_ledger_needs_a_slice_with_an_end_which_a_feed_has_not(feed):
    feed.write(
        "connections.yml", "src: {connector: scripted, place: here}\nmart: {connector: duckdb, path: m.duckdb}\n"
    )
    feed.pipeline("f", "{{ sink('mart', 'f', strategy: 'append', duplicates: 'refuse') }}", SQL)
    said = feed.pz("plan", code=2)
    assert "PZ0214" in said.err and "src.f" in said.err and "token" in said.err
