"""The kit's rules hold for a connector in a process of its own as they do for the same one inside pz."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pz_core.plugins.isolation.environment import Environment
from pz_core.plugins.registry import Registry
from pz_core.testkit import run_suite

from ..plugin_checks.conftest import HOSTILE, hostile, hostile_site, install

__all__ = ["hostile", "hostile_site"]

#: What moving a call into another process could break.
RULES = {
    "a_cancelled_read_ends",
    "a_failed_write_leaves_the_old_content",
    "a_missing_entity_is_refused_by_name",
    "a_read_can_end_early",
    "a_write_lands_every_row",
    "abort_leaves_the_target_as_it_was",
    "an_ended_session_takes_nothing",
    "batches_are_no_larger_than_asked",
    "batches_are_read_while_they_are_there",
    "many_batches_are_one_load",
    "no_rows_give_one_batch",
    "nothing_is_seen_before_the_commit",
    "partitions_cover_exactly",
    "reads_at_once_do_not_meet",
    "schema_is_what_lands",
    "secrets_are_never_shown",
    "the_class_is_a_connector",
    "values_arrive_exactly_or_are_refused",
    "writes_at_once_do_not_meet",
}


@pytest.fixture
def isolated(bare: Path, tmp_path: Path) -> type:
    """The honest connector of the hostile package, in an environment of its own."""
    environment = Environment.of(tmp_path, "pz-hostile")
    shutil.copytree(bare, environment.folder, symlinks=True)
    install(HOSTILE, environment.site)
    made: type = Registry(["pz-hostile"], isolated={"pz-hostile": environment}).load("connector", "hostile_honest")
    return made


def kept(isolated: type, only: set[str] | None) -> None:
    from pz_hostile.kit import HonestSuite

    report = run_suite(type("Isolated", (HonestSuite,), {"connector": isolated}), only=only)
    assert [(result.rule, result.reason) for result in report.failures] == []
    assert report.counts()["passed"] > 20


def test_rules_that_a_process_could_break_are_kept(hostile: Path, isolated: type) -> None:
    kept(isolated, RULES)


@pytest.mark.deep
def test_every_rule_is_kept(hostile: Path, isolated: type) -> None:
    kept(isolated, None)
