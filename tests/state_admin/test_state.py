from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from pz_core.run import state_audit
from pz_core.run.lock import RunLock

KEY = "erp.invoices"
OLD, NEW = "20260105T080000000Z-0a0a", "20260106T080000000Z-0b0b"


def entry(value="4400", kind="bigint", cursor="no", **more):
    return {"cursor": cursor, "type": kind, "value": value, "runId": NEW, **more}


class Lab:
    def __init__(self, root: Path, pz) -> None:
        self.root, self.pz = root, pz
        self.file = root / ".pz/state/watermarks.json"
        self.audit = root / ".pz/state/audit.jsonl"

    def store(self, **entries):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        named = {key.replace("__", "."): value for key, value in entries.items()}
        self.file.write_text(json.dumps({"version": 1, "watermarks": named}))

    def stored(self, key=KEY):
        return json.loads(self.file.read_text())["watermarks"].get(key)

    def run(self, run_id, value, name="src_erp__invoices", kind="bigint", cursor="no"):
        folder = self.root / ".pz/runs" / run_id
        folder.mkdir(parents=True, exist_ok=True)
        node = {"id": "1", "kind": "SourceLoad", "name": name, "status": "success", "rows": 1, "durationMs": 1}
        if value is not None:
            node["watermark"] = {"cursor": cursor, "type": kind, "value": value}
        found = {"version": 1, "runId": run_id, "status": "success", "startedAt": "x", "nodes": [node]}
        (folder / "run_results.json").write_text(json.dumps(found))
        return folder


@pytest.fixture
def lab(tmp_path, monkeypatch, capsys):
    from pz_core.cli.main import invoke

    monkeypatch.chdir(tmp_path)
    (tmp_path / "project.yml").write_text("name: p\nversion: 1.0.0\n")
    (tmp_path / "connections.yml").write_text("broken: [\n")

    def pz(*argv, code=0):
        capsys.readouterr()
        got = invoke(["state", *argv])
        said = capsys.readouterr()
        assert got == code, (argv, got, said)
        return said

    made = Lab(tmp_path, pz)
    made.store(erp__invoices=entry(), hr__badges=entry("7"))
    return made


def test_a_set_value_is_brought_to_canonical_form_and_written_down(lab):
    said = lab.pz("set", KEY, "--value", "+0040", "--yes", "--reason", "late\nrows")
    assert f"{KEY}: 4400 -> 40" in said.out and "reads rows above 40 again" in said.out
    assert lab.stored() == {"cursor": "no", "type": "bigint", "value": "40", "runId": "manual"}
    assert lab.stored("hr.badges") == entry("7")
    (line,) = lab.audit.read_text().splitlines()
    found = json.loads(line)
    assert [found[name] for name in ("action", "key", "before", "after", "reason")] == [
        "set",
        KEY,
        "4400",
        "40",
        "late\nrows",
    ]


def test_a_step_forward_says_what_is_lost(lab):
    assert "pass over rows above 4400 up to 5000" in lab.pz("set", KEY, "--value", "5000", "--yes").out


@pytest.mark.parametrize("value", ["x", "4.5", "2026-01-01", ""])
def test_a_value_of_another_type_is_refused(lab, value):
    said = lab.pz("set", KEY, "--value", value, "--yes", code=2)
    assert "PZ0515" in said.err and "bigint" in said.err and lab.stored() == entry()


def test_a_dry_run_changes_nothing_and_needs_no_consent(lab):
    before = lab.file.read_bytes()
    said = lab.pz("clear", KEY, "--dry-run")
    assert "4400 -> (nothing)" in said.out and "dry run" in said.err
    assert lab.file.read_bytes() == before and not lab.audit.exists()


@pytest.mark.parametrize(
    ("argv", "named"),
    [(["set", KEY, "--yes"], "--value"), (["rollback", KEY, "--yes"], "--to-run"), (["clear", "--yes"], "KEY")],
)
def test_a_missing_argument_is_named(lab, argv, named):
    said = lab.pz(*argv, code=2)
    assert "PZ0516" in said.err and named in said.err


def test_without_a_terminal_nothing_is_changed(lab):
    assert "PZ0516" in lab.pz("clear", KEY, code=2).err
    assert lab.stored() == entry() and not lab.audit.exists()


@pytest.mark.parametrize(("answer", "gone"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_the_question_is_asked_and_no_is_the_default(lab, monkeypatch, answer, gone):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda prompt: answer)
    lab.pz("clear", KEY)
    assert (lab.stored() is None) is gone and lab.audit.exists() is gone


def test_a_live_run_is_named_and_nothing_is_changed(lab):
    folder = lab.run(NEW, "4400")
    lock = RunLock(folder)
    lock.take()
    try:
        said = lab.pz("set", KEY, "--value", "1", "--yes", code=2)
    finally:
        lock.release()
    assert "PZ0517" in said.err and NEW in said.err and lab.stored() == entry()
    lab.pz("set", KEY, "--value", "1", "--yes")


def test_a_run_that_starts_while_the_question_stands_is_noticed(lab, monkeypatch):
    lock = RunLock(lab.run(NEW, "4400"))

    def answered(prompt):
        lock.take()
        return "y"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", answered)
    try:
        assert "PZ0517" in lab.pz("clear", KEY, code=2).err
    finally:
        lock.release()
    assert lab.stored() == entry()


def test_an_entry_that_somebody_else_wrote_meanwhile_is_left_alone(lab, monkeypatch):
    def answered(prompt):
        lab.store(erp__invoices=entry("9000"))
        return "y"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.termui.visible_prompt_func", answered)
    assert "PZ0520" in lab.pz("set", KEY, "--value", "1", code=2).err
    assert lab.stored()["value"] == "9000" and not lab.audit.exists()


def test_an_audit_that_cannot_be_written_gives_the_line_to_add_and_exit_1(lab):
    lab.audit.mkdir()
    said = lab.pz("clear", KEY, "--yes", code=1)
    assert '"action":"clear"' in said.err and lab.stored() is None


class TestRollback:
    def test_takes_what_the_run_recorded(self, lab):
        lab.run(OLD, "4100")
        lab.pz("rollback", KEY, "--to-run", OLD, "--yes")
        assert lab.stored() == entry("4100", runId=OLD)
        assert json.loads(lab.audit.read_text())["toRun"] == OLD

    def test_goes_back_only(self, lab):
        lab.run(OLD, "4500")
        said = lab.pz("rollback", KEY, "--to-run", OLD, "--yes", code=2)
        assert "PZ0515" in said.err and "4500" in said.err and lab.stored() == entry()

    def test_compares_numbers_as_numbers(self, lab):
        lab.run(OLD, "999")
        lab.pz("rollback", KEY, "--to-run", OLD, "--yes")
        assert lab.stored()["value"] == "999"

    def test_to_the_value_that_is_stored_changes_nothing(self, lab):
        lab.run(OLD, "4400")
        assert "nothing was changed" in lab.pz("rollback", KEY, "--to-run", OLD, "--yes").err
        assert lab.stored() == entry() and not lab.audit.exists()

    @pytest.mark.parametrize(
        "recorded",
        [
            {"value": None},
            {"value": "4100", "name": "src_erp__other"},
            {"value": "2026-01-01", "kind": "date"},
            {"value": "4100", "cursor": "other"},
            {"value": "rubbish"},
        ],
    )
    def test_refuses_a_run_without_a_usable_value(self, lab, recorded):
        lab.run(OLD, **recorded)
        said = lab.pz("rollback", KEY, "--to-run", OLD, "--yes", code=2)
        assert "PZ0514" in said.err and OLD in said.err and lab.stored() == entry()

    def test_refuses_a_run_that_is_not_there(self, lab):
        assert "PZ0514" in lab.pz("rollback", KEY, "--to-run", OLD, "--yes", code=2).err


class TestShow:
    def test_of_one_key_tells_its_history_and_what_was_changed_by_hand(self, lab):
        lab.run(OLD, "4100")
        lab.run(NEW, "4400")
        for value in range(1, 8):
            lab.pz("set", KEY, "--value", str(value), "--yes")
        with lab.audit.open("a") as file:
            file.write("not json\n")
        found = json.loads(lab.pz("show", KEY, "--json").out)
        assert [item["runId"] for item in found["history"]] == [NEW, OLD]
        assert [item["after"] for item in found["changes"]] == ["7", "6", "5", "4", "3"]
        assert found["watermark"]["value"] == "7" and found["watermark"]["runId"] == "manual"
        assert "6 -> 7" in lab.pz("show", KEY).out

    def test_flags_what_runs_cannot_use(self, lab):
        lab.store(a__one=entry("007"), b__two=entry("x", "geometry"), c__three={"value": 3}, d__four=entry("x"))
        found = {w["key"]: w.get("flaw", "") for w in json.loads(lab.pz("show", "--json").out)["watermarks"]}
        assert "canonical form (7)" in found["a.one"] and "geometry" in found["b.two"]
        assert "missing" in found["c.three"] and "no bigint" in found["d.four"]
        lab.pz("show")
        assert "PZ0515" in lab.pz("set", "b.two", "--value", "1", "--yes", code=2).err
        lab.pz("clear", "c.three", "--yes")

    def test_of_a_damaged_file_warns_and_ends_with_1(self, lab):
        lab.file.write_text("{ half")
        said = lab.pz("show", code=1)
        assert said.err.startswith("warning: .pz/state/watermarks.json")
        lab.pz("show", KEY, code=1)
        lab.pz("clear", KEY, "--yes", code=1)
        assert lab.file.read_text() == "{ half"

    def test_says_when_two_datasets_share_a_name_in_the_history(self, lab):
        lab.store(**{"erp__in.voices": entry(), "erp__in_voices": entry()})
        assert "erp.in_voices" in lab.pz("show", "erp.in.voices").err

    def test_of_a_token_never_shows_it(self, lab):
        path = lab.root / ".pz/state/sync-state.json"
        path.write_text(json.dumps({"version": 1, "syncState": {"api.feed": {"token": "s3cr3t", "runId": NEW}}}))
        for argv in (["show"], ["show", "api.feed"], ["show", "--json"]):
            said = lab.pz(*argv)
            assert "api.feed" in said.out and "s3cr3t" not in said.out + said.err
        assert "PZ0515" in lab.pz("set", "api.feed", "--value", "1", "--yes", code=2).err
        lab.pz("clear", "api.feed", "--yes")
        assert "s3cr3t" not in path.read_text() + lab.audit.read_text()

    def test_needs_a_project(self, lab):
        (lab.root / "project.yml").unlink()
        assert "PZ0101" in lab.pz("show", code=2).err


def test_a_torn_last_line_of_the_audit_does_not_swallow_the_next(tmp_path):
    state_audit.path_of(tmp_path).parent.mkdir(parents=True)
    state_audit.path_of(tmp_path).write_bytes(b'{"at":"x","act')
    change = state_audit.made_now("set", "a.b", "1", "2", to_run=None, reason=None)
    state_audit.append(tmp_path, change)
    assert state_audit.changes(tmp_path, "a.b", 5) == (change,)


def test_the_sqlite_backend_is_administered_alike(lab):
    (lab.root / "project.yml").write_text("name: p\nversion: 1.0.0\nstate: {backend: sqlite, path: s.db}\n")
    from pz_core.state.sqlite import SqliteState

    backend = SqliteState({"path": "s.db"}, str(lab.root))
    backend.write("watermarks", "x.y", entry(), None)
    backend.close()
    lab.pz("set", "x.y", "--value", "12", "--yes")
    assert json.loads(lab.pz("show", "x.y", "--json").out)["watermark"]["value"] == "12"
    lab.pz("clear", "x.y", "--yes")
    assert "PZ0513" in lab.pz("show", "x.y", code=2).err
