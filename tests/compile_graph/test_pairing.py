from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pz_core.contract.options import Option, option_set
from pz_core.contract.strategy import StrategyTraits
from pz_core.plugins import Registry

INC = "sync: {mode: incremental, cursor: ts}"
CDC = "sync: {mode: cdc}"
AUTO = "sync: {mode: auto}"


def places(read: str) -> str:
    return f"shop: {{connector: pg, entities: {{orders: {{read: {{{read}}}}}}}}}\nmart: {{connector: pg}}\n"


def load(options: str, read: str = "from {{ source('shop','orders') }}") -> dict[str, str]:
    return {"o": f"INSERT INTO {{{{ sink('mart','o'{', ' if options else ''}{options}) }}}} {read}"}


MERGE = "strategy: 'merge', keys: ['id']"


@pytest.mark.parametrize(
    ("read", "options", "codes"),
    [
        (INC, "", ["PZ0214"]),
        (INC, "duplicates: 'accept'", []),
        (INC, "duplicates: 'refuse'", []),
        (INC, "strategy: 'replace'", ["PZ0335"]),
        (INC, MERGE, []),
        (CDC, "", ["PZ0335"]),
        (CDC, "duplicates: 'accept'", ["PZ0335"]),
        (CDC, "strategy: 'replace'", ["PZ0335"]),
        (CDC, MERGE, ["PZ0336"]),
        (CDC, MERGE + ", on_delete: 'soft'", []),
        (AUTO, "", []),
        (AUTO, "strategy: 'replace'", []),
        ("", "", []),
        ("", MERGE + ", on_delete: 'ignore'", ["PZ0337"]),
        (INC, MERGE + ", on_delete: 'ignore'", ["PZ0337"]),
    ],
)
def test_the_matrix_at_both_distances(make, read, options, codes):
    near = make(load(options), connections=places(read))
    hops = {**load(options, "from {{ ref('b') }}"), "b": "from {{ ref('e') }}", "e": "from {{ ref('a') }}"}
    far = make(
        {**hops, "a": "from {{ source('shop','orders') }}"},
        connections=places(read),
        configs={"e": "materialization: ephemeral\n"},
    )
    for lab in (near, far):
        if not codes:
            assert lab.graph().named("mart.o")
            continue
        errors = lab.errors()
        assert [e.code for e in errors] == codes
        assert all("mart.o" in e.message and e.where.file == "pipelines/o.sql" for e in errors)
        if codes != ["PZ0337"]:
            assert all("shop.orders" in e.message for e in errors)


def test_every_output_is_judged_on_its_own_and_all_are_reported(lab):
    lab.write(
        {
            "a": "from {{ source('shop','orders') }}",
            "x": "INSERT INTO [{{ sink('mart','x') }}, {{ sink('mart','y', strategy: 'replace') }}, "
            "{{ sink('mart','z', strategy: 'merge', keys: ['id']) }}] from {{ ref('a') }}",
        },
        connections=places(INC),
    )
    assert sorted((e.code, e.message.split(" ")[0]) for e in lab.errors()) == [
        ("PZ0214", "mart.x"),
        ("PZ0335", "mart.y"),
    ]


def test_deletes_need_one_dataset_above(lab):
    read = "from {{ source('shop','orders') }} join {{ source('shop','items') }} using (id)"
    lab.write(load(MERGE + ", on_delete: 'delete'", read), connections=places(CDC))
    (error,) = lab.errors()
    assert error.code == "PZ0337" and "shop.items" in error.message and "'delete'" in error.message
    lab.write(load(MERGE + ", on_delete: 'ignore'", read), connections=places(CDC))
    assert lab.graph().named("mart.o").on_delete == "ignore"


def test_sql_declared_reads_pair_too(lab):
    lab.write(
        load("", "select id from {{ source('shop','orders') }} where ts > {{ watermark('shop','orders') }}"),
        connections=places(""),
    )
    assert lab.codes() == ["PZ0214"]


def test_explicit_auto_is_noted_where_the_answer_is_open(lab):
    notes = [n.message for n in lab.write(load(""), connections=places(AUTO)).graph().notices if n.severity == "note"]
    assert any("mart.o" in n and "shop.orders" in n for n in notes)
    notes = [
        n.message for n in lab.write(load(MERGE), connections=places(AUTO)).graph().notices if n.severity == "note"
    ]
    assert not any("mart.o" in n for n in notes)


class Dimension:
    """A strategy of a plugin, as its author would write it."""

    name = "dimension"
    options = option_set(Option("snapshot", "boolean", "the batch is all there is"))
    traits = StrategyTraits(
        takes_keys=True, idempotent=True, needs_complete_batch=False, takes_changes=False, load_modes=("program",)
    )
    default_schema_policy = "evolve"


class Ledger:
    """A strategy that takes no keys and forgives repeats."""

    name = "ledger"
    options = option_set()
    traits = StrategyTraits(
        takes_keys=False, idempotent=True, needs_complete_batch=False, takes_changes=False, load_modes=("add",)
    )


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    found: dict[str, Any] = {"dimension": Dimension, "ledger": Ledger}
    load_, names = Registry.load, Registry.names
    monkeypatch.setattr(
        Registry,
        "load",
        lambda self, kind, name: found[name] if kind == "strategy" and name in found else load_(self, kind, name),
    )
    monkeypatch.setattr(
        Registry,
        "names",
        lambda self, kind: tuple(sorted({*names(self, kind), *(found if kind == "strategy" else ())})),
    )
    yield


@pytest.mark.usefixtures("plugins")
@pytest.mark.parametrize(
    ("read", "options", "codes"),
    [
        ("", "strategy: 'dimension'", ["PZ0209"]),
        ("", "strategy: 'ledger', keys: ['id']", ["PZ0211"]),
        (INC, "strategy: 'ledger'", []),
        (CDC, "strategy: 'ledger'", ["PZ0335"]),
        (INC, "strategy: 'dimension', keys: ['id']", []),
        (INC, "strategy: 'dimension', keys: ['id'], snapshot: false", []),
        (INC, "strategy: 'dimension', keys: ['id'], snapshot: true", ["PZ0335"]),
        (CDC, "strategy: 'dimension', keys: ['id'], snapshot: true", ["PZ0335"]),
        (CDC, "strategy: 'dimension', keys: ['id']", ["PZ0335"]),
        ("", "strategy: 'dimension', keys: ['id'], snapshot: true", []),
        (INC, "strategy: 'merge', keys: ['id'], snapshot: true", []),  # an option of the connector, if of anybody
    ],
)
def test_rules_follow_from_what_a_strategy_says_of_itself(lab, read, options, codes):
    lab.write(load(options), connections=places(read))
    assert (lab.codes() if codes else [lab.graph().named("mart.o").name]) == (codes or ["mart.o"])


@pytest.mark.usefixtures("plugins")
def test_a_strategy_may_bring_its_own_default_policy(lab):
    lab.write(load("strategy: 'dimension', keys: ['id']"), connections=places(""))
    assert lab.graph().named("mart.o").schema_policy == "evolve"
    lab.write(load("strategy: 'dimension', keys: ['id'], schema_policy: 'ignore'"), connections=places(""))
    assert lab.graph().named("mart.o").schema_policy == "ignore"
