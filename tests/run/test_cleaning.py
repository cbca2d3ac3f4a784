from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pz_core.errors import PzError
from pz_core.run.clean import clean
from pz_core.run.history import latest, list_runs
from pz_core.run.lock import RunLock
from pz_core.run.retention import retain

NOW = datetime(2026, 1, 10, tzinfo=UTC)


def run(root, day, *, status="success", staging=True):
    name = f"202601{day:02d}T000000000Z-000{day % 10}"
    directory = root / ".pz" / "runs" / name
    directory.mkdir(parents=True)
    (directory / ".lock").touch()
    if staging:
        (directory / "staging.duckdb").write_text("12345")
        (directory / "staging.duckdb.wal").write_text("123")
    (directory / "run_results.json").write_text(
        f'{{"version":1,"runId":"{name}","status":"{status}","startedAt":"2026-01-{day:02d}T00:00:00.000Z",'
        f'"finishedAt":"2026-01-{day:02d}T00:00:01.500Z","nodes":[]}}'
    )
    return directory


def staged(root):
    return sorted(int(p.parent.name[6:8]) for p in (root / ".pz" / "runs").glob("2*/staging.duckdb"))


def test_the_default_keeps_the_newest_and_every_result(tmp_path):
    for day in (1, 2, 3):
        run(tmp_path, day)
    swept = clean(tmp_path)
    assert staged(tmp_path) == [3] and len(swept.runs) == 2 and swept.bytes_freed == 16
    assert len(list((tmp_path / ".pz" / "runs").glob("*/run_results.json"))) == 3
    assert not list((tmp_path / ".pz" / "runs").glob("20260101*/*.wal"))
    assert clean(tmp_path).nothing


def test_a_dry_run_tells_the_same_and_removes_nothing(tmp_path):
    for day in (1, 2):
        run(tmp_path, day)
    (tmp_path / ".pz" / "tmp" / "20260101T000000000Z-0001").mkdir(parents=True)
    would = clean(tmp_path, dry_run=True)
    assert staged(tmp_path) == [1, 2] and (tmp_path / ".pz" / "tmp" / "20260101T000000000Z-0001").exists()
    assert clean(tmp_path) == would


def test_keep_last_takes_text_and_zero_takes_all(tmp_path):
    for day in (1, 2, 3):
        run(tmp_path, day)
    clean(tmp_path, keep_last="2")
    assert staged(tmp_path) == [2, 3]
    clean(tmp_path, keep_last=0)
    assert staged(tmp_path) == []


def test_purge_takes_whole_runs_but_no_stranger(tmp_path):
    for day in (1, 2):
        run(tmp_path, day)
    mine = tmp_path / ".pz" / "runs" / "zz_scratch"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    clean(tmp_path, keep_last=0, purge=True)
    assert [p.name for p in (tmp_path / ".pz" / "runs").iterdir()] == ["zz_scratch"]
    assert (mine / "notes.txt").exists()


def test_older_than_spares_the_newest_and_what_has_no_date(tmp_path):
    for day in (1, 2):
        run(tmp_path, day)
    undated = tmp_path / ".pz" / "runs" / "20269901T000000000Z-0009"
    undated.mkdir()
    (undated / "staging.duckdb").write_text("x")
    clean(tmp_path, older_than="30m", now=NOW)
    assert (undated / "staging.duckdb").exists()
    undated.rename(undated.with_name("zz"))
    run(tmp_path, 3)
    clean(tmp_path, older_than="8d", now=NOW)
    assert staged(tmp_path) == [2, 3]
    clean(tmp_path, older_than="100d", now=NOW)
    assert staged(tmp_path) == [2, 3]


def test_a_live_run_is_spared_whatever_is_asked(tmp_path):
    directory = run(tmp_path, 1, status="running")
    work = tmp_path / ".pz" / "tmp" / directory.name
    work.mkdir(parents=True)
    lock = RunLock(directory)
    lock.take()
    swept = clean(tmp_path, keep_last=0, purge=True)
    assert swept.live == (directory.name,) and staged(tmp_path) == [1] and work.exists()
    assert list_runs(tmp_path)[0].live
    lock.release()
    clean(tmp_path, keep_last=0, purge=True)
    assert not directory.exists() and not work.exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"keep_last": "2", "older_than": "1d"}, "PZ0511"),
        ({"keep_last": "-1"}, "PZ0512"),
        ({"keep_last": "two"}, "PZ0512"),
        ({"keep_last": "²"}, "PZ0512"),
        ({"older_than": "1w"}, "PZ0512"),
        ({"older_than": ""}, "PZ0512"),
    ],
)
def test_selectors_that_cannot_be_used(tmp_path, options, code):
    run(tmp_path, 1)
    with pytest.raises(PzError) as caught:
        clean(tmp_path, **options)
    assert caught.value.code == code and staged(tmp_path) == [1]


def test_a_link_among_the_runs_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "staging.duckdb").write_text("keep")
    run(tmp_path, 2)
    (tmp_path / ".pz" / "runs" / "20260101T000000000Z-0001").symlink_to(outside)
    clean(tmp_path, keep_last=0, purge=True)
    assert (outside / "staging.duckdb").exists()


def test_retention_never_takes_the_run_that_just_ended(tmp_path):
    for day in (1, 2, 3):
        run(tmp_path, day)
    retain(tmp_path, 1, "20260101T000000000Z-0001")
    assert staged(tmp_path) == [1, 3]
    retain(tmp_path, None, "x")
    assert staged(tmp_path) == [1, 3]


def test_no_project_folder_yet_is_no_trouble(tmp_path):
    assert clean(tmp_path).nothing and list_runs(tmp_path) == () and latest(tmp_path) is None


def test_history_is_newest_first_and_survives_strangers_and_broken_files(tmp_path):
    for day in (1, 2, 3):
        run(tmp_path, day)
    (run(tmp_path, 4) / "run_results.json").write_text("{")
    (tmp_path / ".pz" / "runs" / "zz").mkdir()
    (tmp_path / ".pz" / "runs" / "20260105T000000000Z-0005").mkdir()
    found = list_runs(tmp_path)
    assert [r.run_id[6:8] for r in found] == ["04", "03", "02", "01"]
    assert found[0].status == "unreadable" and found[1].duration_ms == 1_500
    assert latest(tmp_path).run_id[6:8] == "03"
