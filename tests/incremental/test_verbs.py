"""``pz run`` over several runs, as a user types it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def pz(lab, *args, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "pz_core", *args], cwd=lab.root, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    return done


def window(lab, **sync):
    words = "".join(f", {key}: {value!r}" for key, value in sync.items())
    lab.connections(f"        columns: {{id: bigint}}\n        sync: {{mode: incremental, cursor: id{words}}}")
    lab.write("in/orders.csv", "id\n" + "".join(f"{i}\n" for i in range(1, 8)))
    lab.write(
        "pipelines/o.sql",
        "INSERT INTO {{ sink('lake', 'o', duplicates: 'accept', format: 'parquet') }} "
        "select id from {{ source('shop', 'orders') }}",
    )


def runs(lab):
    return len(list((lab.root / ".pz" / "runs").iterdir()))


def test_it_repeats_until_the_window_has_come_to_its_end_without_a_run_more(lab):
    window(lab, initial="0", max_window="3", until="7")
    done = pz(lab, "run", "--until-caught-up")
    assert runs(lab) == 3 and "3 passes: all windows have come to their end" in done.stderr
    assert lab.ask(f"select count(*), count(distinct id) from read_parquet('{lab.root}/out/o/*.parquet')") == [(7, 7)]
    pz(lab, "run", "--until-caught-up")
    assert runs(lab) == 4


def test_full_refresh_is_for_the_first_pass_only(lab):
    window(lab, initial="0", max_window="3", until="7")
    pz(lab, "run", "--until-caught-up")
    pz(lab, "run", "--until-caught-up", "--full-refresh")
    assert lab.ask(f"select count(*) from read_parquet('{lab.root}/out/o/*.parquet')") == [(14,)]


def test_a_limit_of_runs_ends_it(lab):
    window(lab, initial="0", max_window="1", until="7")
    done = pz(lab, "run", "--until-caught-up", "--max-runs", "2", code=1)
    assert runs(lab) == 2 and "--max-runs 2" in done.stderr
    assert lab.stored() == "2"


def test_a_run_that_fails_ends_it_with_its_code(lab):
    window(lab, initial="0", max_window="3", until="7")
    lab.write("in/orders.csv", "id\n1\nx\n")
    pz(lab, "run", "--until-caught-up", code=1)
    assert runs(lab) == 1


def test_a_window_that_stands_still_ends_it(lab):
    window(lab, initial="0", max_window="3", until="7")
    lab.write(
        "pipelines/other.sql",
        "INSERT INTO {{ sink('lake', 'other', duplicates: 'accept', format: 'parquet') }} "
        "select id from {{ ref('o') }}",
    )
    done = pz(lab, "run", "--until-caught-up", "--select", "+lake.o", code=1)
    assert runs(lab) == 1 and "did not move on" in done.stderr


@pytest.mark.parametrize("args", [("--max-runs", "3"), ("--until-caught-up", "--max-runs", "0")])
def test_wrong_use_is_refused(lab, args):
    window(lab, initial="0", max_window="3", until="7")
    pz(lab, "run", *args, code=2)


# --- killed ----------------------------------------------------------------------------------------------------------

KILLED = """
import os
from pz_core.run import advance, results
{patch}
from pz_core.cli.main import main
main()
"""


def killed(lab, patch):
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(patch=patch), "run"],
        cwd=lab.root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 9, done.stderr


def test_killed_before_the_watermark_the_next_run_reads_exactly_the_same_rows(lab):
    window(lab, initial="0", max_window="3")
    killed(lab, "advance.advance = lambda *a, **k: os._exit(9)")
    assert lab.stored() is None
    lab.run()
    assert (lab.staged(), lab.stored()) == ([1, 2, 3], "3")


def test_killed_after_the_watermark_the_next_run_goes_on_from_there(lab):
    window(lab, initial="0", max_window="3")
    killed(lab, "results.ResultsFile.finish = lambda *a, **k: os._exit(9)")
    assert lab.stored() == "3"
    lab.run()
    assert (lab.staged(), lab.stored()) == ([4, 5, 6], "6")
