"""The kit finds each rule that the hostile plugin breaks, and a project that does not use it runs undisturbed."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from pz_core.cli.main import invoke
from pz_core.cli.plugin_card import card_of, offers_named
from pz_core.errors import PzError
from pz_core.plugins.registry import Registry
from pz_core.testkit.report import run_suite

OUT = "out: {connector: duckdb, path: o.duckdb}\n"
#: Variant -> a rule that finds it.
BEHAVING = {
    "accepts_after_end": "an_ended_session_takes_nothing[commit]",
    "always_well": "a_bad_place_is_told",
    "batches_too_large": "batches_are_no_larger_than_asked",
    "changes_type": "schema_is_what_lands",
    "counts_wrongly": "a_write_lands_every_row[append universal]",
    "cuts_names": "names_that_look_alike_are_kept_apart[last of many letters]",
    "drops_nulls": "read_returns_every_value[universal]",
    "empties_to_null": "read_returns_every_value[universal]",
    "foreign_errors": "a_missing_entity_is_refused_by_name",
    "hides_old_content": "a_failed_write_leaves_the_old_content[replace universal]",
    "ignores_abort": "abort_leaves_the_target_as_it_was[after rows]",
    "keeps_batches": "batches_are_read_while_they_are_there[gone after the call]",
    "loses_bounds": "bounds_are_exact[id]",
    "loses_empty_schema": "no_rows_give_one_batch",
    "minds_the_machine": "the_machine_does_not_matter",
    "partial_write": "a_failed_write_leaves_the_old_content[replace universal]",
    "prints_secrets": "secrets_are_never_shown",
    "replace_adds": "another_batch_does_what_the_strategy_says[replace universal]",
    "rounds_decimals": "a_write_lands_every_row[replace universal]",
    "shows_early": "nothing_is_seen_before_the_commit[replace universal]",
    "touches_the_place": "making_and_planning_touch_nothing",
    "undeclared_secret": "secrets_are_declared",
}
#: Variant -> the code that stands in the card, and a word of the reason.
REGISTERING = {
    "connector.hostile_import_error": ("PZ0701", "OSError: a library of the system is missing"),
    "connector.hostile_exits": ("PZ0701", "SystemExit"),
    "connector.hostile_wrong_api": ("PZ0704", ">=9"),
    "connector.hostile_reserved_key": ("PZ0345", "entities"),
    "connector.hostile_unknown_hook": ("PZ0705", "unknown hook pz_conectors()"),
    "connector.hostile_raising_hook": ("PZ0701", "RuntimeError: not today"),
    "connector.hostile_no_entry_point": ("PZ0705", "hostile_stowaway"),
    "connector.hostile_not_registered": ("PZ0705", "does not register it"),
    "connector.hostile_no_target": ("PZ0705", "does not exist"),
}


@pytest.mark.parametrize("variant", BEHAVING)
def test_the_kit_finds_what_a_variant_does(hostile: Path, variant: str) -> None:
    kit = importlib.import_module("pz_hostile.kit")
    rule = BEHAVING[variant]
    honest = run_suite(kit.HonestSuite, only={rule})
    assert {r.outcome for r in honest.results} <= {"passed", "skipped"}, [r.reason for r in honest.results]
    assert "passed" in {r.outcome for r in honest.results}
    name = "".join(part.capitalize() for part in variant.split("_"))
    found = run_suite(getattr(kit, f"{name}Suite"), only={rule})
    assert [r.outcome for r in found.results if r.outcome == "failed"], [r.reason for r in found.results]


@pytest.mark.parametrize("name", REGISTERING)
def test_the_card_finds_what_cannot_be_loaded(hostile: Path, name: str) -> None:
    code, words = REGISTERING[name]
    (offer,) = offers_named(name, Registry())
    broken = {result["rule"]: result["reason"] for result in card_of(offer).broken}
    assert code in broken["it_loads"]
    assert words in broken["it_loads"]


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("connector.hostile_clash", "its_options_clash_with_none", "strategy 'hostile_clash' both declare mode"),
        ("strategy.hostile_clash", "its_options_clash_with_none", "connector 'hostile_clash' both declare mode"),
        ("connector.hostile_takes_words", "its_options_take_no_word_of_pz", "keys"),
        ("connector.hostile_loud_import", "importing_it_is_quick_and_quiet", "prints"),
        ("connector.hostile_no_suite", "its_suite_is_there", "pz_hostile.absent:Suite cannot be imported"),
    ],
)
def test_the_card_finds_what_registers_badly(hostile: Path, name: str, rule: str, words: str) -> None:
    from pz_core.testkit.registration import OfferedSuite, RegistrationSuite

    registry = Registry()
    (offer,) = offers_named(name, registry)
    suite: type[RegistrationSuite | OfferedSuite]
    if rule == "its_suite_is_there":
        from pz_core.cli.plugin_card import _offered

        suite = _offered("pz_hostile.absent:Suite", "connector")  # type: ignore[assignment]
    else:
        suite = type("Registering", (RegistrationSuite,), {"registry": registry, "offer": offer})
    (result,) = run_suite(suite, only={rule}).results
    assert result.outcome == "failed"
    assert words in result.reason


def test_a_name_of_two_packages_is_found(hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "pz_twin-1.0.dist-info"
    inside.mkdir()
    (inside / "METADATA").write_text("Metadata-Version: 2.1\nName: pz-twin\nVersion: 1.0\n")
    (inside / "entry_points.txt").write_text("[pz]\nconnector.hostile_honest = pz_hostile\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    first, second = offers_named("hostile_honest", Registry())
    for offer in (first, second):
        broken = {result["rule"]: result["reason"] for result in card_of(offer).broken}
        assert "PZ0702" in broken["it_loads"]
        assert "pz-hostile 6.6.6 and pz-twin 1.0" in broken["it_loads"]


def test_one_that_ends_the_process_is_told_with_the_rule_that_it_ended_in(hostile: Path) -> None:
    (offer,) = offers_named("hostile_dies", Registry())
    (died,) = [result for result in card_of(offer).broken if result["rule"] == "it_lives"]
    assert "read" in died["reason"] or "missing_entity" in died["reason"]
    assert died["reason"].endswith(": exit code 7")


# --- whoever does not use it -----------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of files, without a list of packages: every installed plugin is available to it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "project.yml").write_text("name: p\nversion: 1.0.0\n")
    (tmp_path / "connections.yml").write_text(
        "in: {connector: localfiles, root: in}\nout: {connector: duckdb, path: o.duckdb}\n"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.csv").write_text("id,label\n1,a\n2,\n")
    (tmp_path / "pipelines" / "one.sql").write_text(
        "INSERT INTO {{ sink('out', 'rows', strategy: 'merge', keys: ['id']) }}\n"
        "SELECT * FROM {{ source('in', 'rows', format: 'csv') }}\n"
    )
    return tmp_path


@pytest.mark.parametrize("verb", ["run", "plan", "validate", "compile", "ls"])
def test_a_project_that_does_not_use_it_runs_as_if_it_were_not_there(
    root: Path, hostile: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    code = invoke([verb])
    out, err = capsys.readouterr()
    assert code == 0, err
    told = [line for line in err.splitlines() if "hostile" in line]
    assert len(told) <= (1 if verb == "run" else 0), told  # the observer that raises is told once, and dropped
    assert "hello from" not in out + err
    listed = "connectors:\n  - {package: pz-connector-localfiles}\n  - {package: pz-connector-duckdb}\n"
    (root / "project.yml").write_text(f"name: p\nversion: 1.0.0\n{listed}")
    code = invoke([verb])
    out, err = capsys.readouterr()
    assert code == 0, err
    assert "hostile" not in out + err


def test_lists_keep_a_row_for_each_and_go_on(root: Path, hostile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("connectors", "plugins"):
        assert invoke([verb, "--json"]) == 0
        out, err = capsys.readouterr()
        rows = {row["name"]: row for row in json.loads(out)}
        assert rows["hostile_import_error"]["error"]["code"] == "PZ0701"
        assert "error" not in rows["hostile_honest"]
        assert "error" not in rows["localfiles"]
        assert "warning PZ0705" in err


def test_using_it_is_refused_by_its_code_before_a_run(
    root: Path, hostile: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "connections.yml").write_text(
        "in: {connector: hostile_raising_hook}\nout: {connector: duckdb, path: o.duckdb}\n"
    )
    (root / "pipelines" / "one.sql").write_text("SELECT * FROM {{ source('in', 'rows') }}\n")
    assert invoke(["run"]) == 2
    assert "error PZ0701: connection 'in': plugin pz-hostile 6.6.6" in capsys.readouterr().err
    assert not (root / ".pz" / "runs").exists()


def test_nothing_of_that_name_is_told(hostile: Path) -> None:
    with pytest.raises(PzError) as refused:
        offers_named("connector.absent", Registry())
    assert refused.value.code == "PZ0707"
    assert len(offers_named("Pz.Hostile", Registry())) > 30
