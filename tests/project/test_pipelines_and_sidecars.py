from __future__ import annotations

import pytest

from pz_core.contract.check import CheckDefinition, CheckFault
from pz_core.errors import Problems
from pz_core.plugins.registry import Registry
from pz_core.project.names import entity_fault, fold, legal_name, staging_relation
from pz_core.project.sidecars import load_sidecars
from pz_core.values import Value

from .conftest import Folder


def test_pipelines_are_the_sql_files_at_any_depth_but_below_configs(folder: Folder) -> None:
    loaded = folder.write(
        {
            "pipelines/b.sql": "\ufeffselect 1\r\nfrom x\rwhere 2\r\n",
            "pipelines/z/a.sql": "select 1",
            "pipelines/configs/c.sql": "select 1",
            "pipelines/z/configs/d.sql": "select 1",
            "pipelines/.hidden/e.sql": "select 1",
            "pipelines/.#b.sql": "select 1",
            "pipelines/readme.md": "x",
        }
    ).load()
    assert [(p.name, p.file) for p in loaded.project.pipelines] == [
        ("b", "pipelines/b.sql"),
        ("a", "pipelines/z/a.sql"),
    ]
    assert loaded.project.pipelines[0].text == "select 1\nfrom x\nwhere 2\n"


def test_stems_are_compared_without_case_and_all_files_are_named_once(folder: Folder) -> None:
    folder.write({"pipelines/fares.sql": "x", "pipelines/more/Fares.sql": "x", "pipelines/n/fares.sql": "x"})
    assert folder.faults() == ["PZ0110 pipelines/fares.sql"]
    for name in ("pipelines/fares.sql", "pipelines/more/Fares.sql", "pipelines/n/fares.sql"):
        assert name in folder.lines()


@pytest.mark.parametrize(
    ("stem", "better"),
    [
        ("01_load", "load_01"),
        ("my-load", "my_load"),
        ("été", "ete"),
        ("a.b", "a_b"),
        ("2026", "_2026"),
        ("日", "unnamed"),
    ],
)
def test_a_stem_that_sql_cannot_spell_is_refused_with_a_better_one(folder: Folder, stem: str, better: str) -> None:
    folder.write({f"pipelines/{stem}.sql": "select 1"})
    assert [f.split()[0] for f in folder.faults()] == ["PZ0136"]
    assert f"{better}.sql" in folder.lines()
    assert legal_name(stem) == better


def test_a_sidecar_is_matched_by_its_key(folder: Folder) -> None:
    made = (
        folder.write(
            {
                "pipelines/season/tenors.sql": "select 1",
                "pipelines/configs/evening.yml": "pipeline: tenors\nmaterialization: view\ntags: [soirée, "
                "weekly, weekly, 7]\nchecks:\n"
                "  - not_null: [id]\n  - unique: {columns: [id], sample_values: true}\n  - row_count: {min: 1, "
                "sample_values: false}\n",
            }
        )
        .load()
        .project.pipelines[0]
        .sidecar
    )
    assert (made.materialization, made.tags) == ("view", ("soirée", "weekly", "7"))
    assert [(c.definition.kind, c.sample_values, c.where.line) for c in made.checks] == [
        ("not_null", None, 5),
        ("unique", True, 6),
        ("row_count", False, 7),
    ]
    assert "sample_values" not in made.checks[1].definition.options


def test_of_two_sidecars_the_later_file_counts_and_a_note_says_so(folder: Folder) -> None:
    loaded = folder.write(
        {
            "pipelines/a.sql": "x",
            "pipelines/configs/1.yml": "pipeline: a\ntags: [x]\n",
            "pipelines/configs/2.yml": "pipeline: a\n",
        }
    ).load()
    assert loaded.project.pipelines[0].sidecar.tags == ()
    assert "2.yml replaces pipelines/configs/1.yml" in loaded.notices[0].message


def test_files_that_are_not_read_are_told(folder: Folder) -> None:
    loaded = folder.write(
        {
            "pipelines/a.sql": "x",
            "pipelines/configs/a.yaml": "pipeline: a\n",
            "pipelines/a.yml": "x: 1",
            "connections.yaml": "x: 1",
            "pipelines/configs/x/a.yml": "",
        }
    ).load()
    assert sorted(n.code or n.severity for n in loaded.notices) == ["PZ0135", "PZ0135", "note", "note"]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("pipeline: b\n", ["PZ0111 pipelines/configs/s.yml:1"]),
        ("tags: [x]\n", ["PZ0111 pipelines/configs/s.yml:1"]),
        ("x: 1\npipeline: A\n", ["PZ0111 pipelines/configs/s.yml:2"]),
        ("pipeline: a\nmaterialization: tabel\n", ["PZ0134 pipelines/configs/s.yml:2"]),
        ("pipeline: a\ncheks: []\n", ["PZ0101 pipelines/configs/s.yml:2"]),
        ("pipeline: a\nchecks: {not_null: [id]}\n", ["PZ0113 pipelines/configs/s.yml:2"]),
        ("- a\n", ["PZ0101 pipelines/configs/s.yml:1"]),
    ],
)
def test_a_malformed_sidecar_is_refused(folder: Folder, text: str, faults: list[str]) -> None:
    folder.write({"pipelines/a.sql": "x", "pipelines/configs/s.yml": text})
    assert folder.faults() == faults


def test_what_a_sidecar_does_not_know_is_warned_of(folder: Folder) -> None:
    loaded = folder.write(
        {"pipelines/a.sql": "x", "pipelines/configs/s.yml": "pipeline: a\nowner: me\ntags: daily\n"}
    ).load()
    assert [(n.code, n.where.line) for n in loaded.notices] == [("PZ0101", 2), ("PZ0101", 3)]


class Rule:
    """A check that takes what it is given."""

    name = "rule"
    seen: list[Value] = []

    def define(self, body: Value) -> CheckDefinition:
        self.seen.append(body)
        if body == "bad":
            raise CheckFault("it is bad")
        if body == "crash":
            raise RuntimeError("boom with hunter2")
        options = dict(body) if isinstance(body, dict) else {}
        return CheckDefinition(
            "rule",
            tuple(body) if isinstance(body, list) else (),
            options,
            str(options["name"]) if "name" in options else None,
        )


class FakeRegistry(Registry):
    """Knows one check, and one that cannot be loaded."""

    def names(self, kind: object) -> tuple[str, ...]:
        return ("broken", "rule")

    def load(self, kind: object, name: str) -> object:
        return Rule if name == "rule" else object.__getattribute__


def checks(folder: Folder, *entries: str) -> tuple[Problems, int]:
    text = "pipeline: a\nchecks:\n" + "".join(f"  - {entry}\n" for entry in entries)
    folder.write({"pipelines/configs/s.yml": text})
    problems = Problems()
    Rule.seen = []
    made = load_sidecars(folder.root, ("pipelines/configs/s.yml",), frozenset({"a"}), FakeRegistry(), problems)
    return problems, len(made["a"].checks)


@pytest.mark.parametrize(
    ("entries", "codes", "word"),
    [
        (["rule: bad"], ["PZ0113"], "it is bad"),
        (["rule"], ["PZ0113"], "rule"),
        (["{}"], ["PZ0113"], "empty"),
        ([""], ["PZ0113"], "nothing"),
        (["{rule: [a], broken: [b]}"], ["PZ0113"], "rule and broken"),
        (["rul: [a]"], ["PZ0113"], "did you mean 'rule'"),
        (["rule: [a]", "rule: [a]"], ["PZ0113"], "duplicate"),
        (["rule: {x: 1, sample_values: true}", "rule: {x: 1}"], ["PZ0113"], "duplicate"),
        (["rule: {name: n, x: 1}", "rule: {name: n, x: 2}"], ["PZ0113"], "'n'"),
        (["rule: {sample_values: maybe}"], ["PZ0113"], "sample_values"),
        (["rule: {x: .nan}"], ["PZ0113"], "finite"),
        (["rule: crash"], ["PZ0701"], "RuntimeError"),
        (["broken: [a]", "broken: [b]"], ["PZ0701"], "broken"),
    ],
)
def test_a_malformed_check_is_refused(folder: Folder, entries: list[str], codes: list[str], word: str) -> None:
    problems, _ = checks(folder, *entries)
    assert [e.code for e in problems.errors] == codes
    text = problems.errors[0].render()
    assert word in text
    assert "hunter2" not in text
    assert "pipelines/configs/s.yml:" in text
    if codes == ["PZ0113"]:
        assert "pipeline 'a'" in text


def test_a_check_gets_its_body_as_written_without_sample_values(folder: Folder) -> None:
    problems, count = checks(
        folder,
        "rule: [a, 'b']",
        "rule: {x: 1, y: [1.5, true, '2'], sample_values: false}",
        "rule:",
        "rule: {sample_values: true, z: 1}",
    )
    assert not problems.any
    assert count == 4
    assert Rule.seen == [["a", "b"], {"x": 1, "y": [1.5, True, "2"]}, {}, {"z": 1}]


def test_duplicates_on_one_line_are_seen(folder: Folder) -> None:
    folder.write(
        {
            "pipelines/a.sql": "x",
            "pipelines/configs/s.yml": "pipeline: a\nchecks: [{not_null: [id]}, {not_null: [id]}]\n",
        }
    )
    assert folder.faults() == ["PZ0113 pipelines/configs/s.yml:2"]


def test_checks_of_a_sidecar_without_a_pipeline_are_read_too(folder: Folder) -> None:
    folder.write({"pipelines/configs/s.yml": "pipeline: gone\nchecks:\n  - row_count: {}\n"})
    assert folder.faults() == ["PZ0111 pipelines/configs/s.yml:1", "PZ0113 pipelines/configs/s.yml:3"]


def test_folding_keeps_letters_digits_and_underscores_only() -> None:
    assert (fold("dbo.Orders-é 1"), staging_relation("crm", "public.orders")) == (
        "dbo_Orders___1",
        "src_crm__public_orders",
    )


@pytest.mark.parametrize("name", ["", " ", "a b", "a\tb", "a\u00a0b", "a..b", ".a", "a.", "."])
def test_an_entity_name_that_cannot_be_is_said_why(name: str) -> None:
    assert entity_fault(name)


@pytest.mark.parametrize("name", ["a", "dbo.orders", "a.b.c", "Ünï-cødé", "a/b", "$x"])
def test_an_entity_name_is_spelled_as_the_remote_system_does(name: str) -> None:
    assert entity_fault(name) is None
