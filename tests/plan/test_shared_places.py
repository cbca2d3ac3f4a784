"""Two outputs that end up in one place are refused, whatever their names: each would undo the other."""

from __future__ import annotations

import pytest

from pz_core.errors import PzErrors, Where
from pz_core.plan.planner import make_plan


def placing(lab, places):
    """A connector that puts each entity where ``places`` says."""

    def write_place(self, spec):
        found = places[spec.entity]
        if isinstance(found, Exception):
            raise found
        return found

    return lab.connector(write_place=write_place)


def two_sinks(lab, **second):
    return [
        lab.sink(),
        lab.sink(id="k2", **{"name": "out.c", "entity": "c", "where": Where("pipelines/q.sql", 1)} | second),
    ]


def test_two_outputs_of_one_place_are_named_together_at_the_first_of_them(lab):
    graph = lab.graph(sinks=two_sinks(lab, pipeline="p"))
    with pytest.raises(PzErrors) as caught:
        make_plan(graph, lab.registry(fake=placing(lab, {"b": "/data/x.csv", "c": "/data/x.csv"})))
    (error,) = caught.value
    assert error.code == "PZ0206" and str(error.where) == "pipelines/p.sql:1"
    assert "out.b and out.c" in error.message and error.hint
    assert "/data" not in error.render()  # a place may hold what came from the environment


def test_other_places_and_connectors_that_cannot_say_are_no_fault(lab):
    graph = lab.graph(sinks=two_sinks(lab))
    make_plan(graph, lab.registry(fake=placing(lab, {"b": "/data/x.csv", "c": "/data/y.csv"})))
    make_plan(graph, lab.registry(fake=placing(lab, {"b": "/data/x.csv", "c": RuntimeError("no idea")})))
    make_plan(graph, lab.registry())


def test_places_of_two_kinds_of_connectors_are_never_one(lab):
    sinks = two_sinks(lab, connection="in", connector="other")
    project = lab.project(**{"in": lab.Connection("in", "other"), "out": lab.Connection("out", "fake")})
    graph = lab.graph(sources=[], sinks=sinks, project_=project)
    same = {"b": "x", "c": "x"}
    make_plan(graph, lab.registry(fake=placing(lab, same), other=placing(lab, same)))
