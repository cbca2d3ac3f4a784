from __future__ import annotations

import pytest

from pz_core.compile.select import checks_with_ancestors, select, with_ancestors
from pz_core.errors import PzErrors

PIPELINES = {
    "stg": "select * from {{ source('yard','carts') }}",
    "mart": "INSERT INTO {{ sink('lake','out', strategy: 'replace') }} select * from {{ ref('stg') }}",
    "solo": "INSERT INTO {{ sink('lake','solo', strategy: 'replace') }} select 1 as x",
}
CONFIGS = {"mart": "tags: [daily]\nchecks:\n  - unique: [id]\n"}


@pytest.fixture
def graph(lab):
    return lab.write(PIPELINES, configs=CONFIGS).graph()


def names(graph, ids):
    return [n.name for n in graph.nodes if n.id in ids]


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("stg", ["stg"]),
        ("stg+", ["stg", "mart", "check_mart_unique_id", "lake.out"]),
        ("+mart", ["src_yard__carts", "stg", "mart"]),
        ("+stg+", ["src_yard__carts", "stg", "mart", "check_mart_unique_id", "lake.out"]),
        ("tag:daily", ["mart"]),
        ("+tag:daily", ["src_yard__carts", "stg", "mart"]),
        ("stg+,tag:daily", ["mart"]),
        ("source:yard.*", ["src_yard__carts"]),
        ("source:yard.carts+,lake.*", ["lake.out"]),
        (" stg  solo ", ["solo", "stg"]),
        ("lake.*", ["lake.out", "lake.solo"]),
        ("*art*", ["src_yard__carts", "mart", "check_mart_unique_id"]),
        ("stg,solo", []),
        ("  ", ["src_yard__carts", "solo", "stg", "mart", "check_mart_unique_id", "lake.out", "lake.solo"]),
    ],
)
def test_expressions(graph, expression, chosen):
    assert names(graph, select(graph, expression=expression)) == chosen


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("stg nope", ["nope"]),
        ("st g!", ["st", "g!"]),
        ("Stg", ["Stg"]),
        ("tag:dai*", ["tag:dai*"]),
        ("source:lake.*", ["source:lake.*"]),
        ("src_yard.carts", ["src_yard.carts"]),
        ("stg,", [""]),
        ("++stg", ["++stg"]),
        ("stg,nope,nope mart nope", ["nope"]),
    ],
)
def test_atoms_that_match_nothing_are_all_named(graph, expression, told):
    with pytest.raises(PzErrors) as caught:
        select(graph, expression=expression)
    assert [(e.code, e.message.split("'")[1]) for e in caught.value] == [("PZ0210", atom) for atom in told]


def test_a_dot_in_a_pattern_is_a_dot(graph):
    with pytest.raises(PzErrors):
        select(graph, expression="lake_out lakexout")


def test_names_take_ancestors_and_descendants_each_on_its_own(lab):
    lab.write(
        {
            "airframe": "select 1 as x",
            "wings": "select 2 as x",
            "plane": "select a.x from {{ ref('airframe') }} a, {{ ref('wings') }} w",
            "flight": "INSERT INTO {{ sink('lake','board') }} from {{ ref('plane') }}",
            "kitchen": "INSERT INTO {{ sink('lake','menus') }} select 3 as x",
        }
    )
    graph = lab.graph()
    assert names(graph, select(graph, names=["airframe"])) == ["airframe", "plane", "flight", "lake.board"]
    both = ["airframe", "wings", "plane", "flight", "lake.board"]
    assert names(graph, select(graph, names=["airframe", "plane"])) == both
    assert names(graph, select(graph, names=["plane", "airframe"])) == both


def test_unknown_names_list_the_flows(graph):
    with pytest.raises(PzErrors) as caught:
        select(graph, names=["nosuch", "stg", "also_no", "source:yard.carts"])
    errors = list(caught.value)
    assert [e.code for e in errors] == ["PZ0210"] * 3
    assert all("lake.out" in e.message and "lake.solo" in e.message for e in errors)


def test_the_gate_of_run(graph, lab):
    with pytest.raises(PzErrors) as caught:
        select(graph, gate=True)
    (error,) = caught.value
    assert error.code == "PZ0215" and "2 flows" in error.message and "lake.out" in error.message
    assert len(select(graph)) == len(select(graph, gate=True, all_=True)) == len(graph.nodes)
    (lab.root / "pipelines/solo.sql").unlink()
    one = lab.graph()
    assert len(select(one, gate=True)) == len(one.nodes)


@pytest.mark.parametrize(
    "ways",
    [{"names": ["stg"], "all_": True}, {"names": ["stg"], "expression": "stg"}, {"expression": "x", "all_": True}],
)
def test_ways_to_choose_exclude_one_another(graph, ways):
    with pytest.raises(PzErrors) as caught:
        select(graph, **ways)
    assert [e.code for e in caught.value] == ["PZ0216"]


def test_test_takes_checks_and_what_they_need_and_no_sink(graph):
    everything = select(graph)
    assert names(graph, checks_with_ancestors(graph, everything)) == [
        "src_yard__carts",
        "stg",
        "mart",
        "check_mart_unique_id",
    ]
    assert checks_with_ancestors(graph, select(graph, expression="stg")) == frozenset()
    assert names(graph, with_ancestors(graph, select(graph, expression="lake.out"))) == [
        "src_yard__carts",
        "stg",
        "mart",
        "lake.out",
    ]
