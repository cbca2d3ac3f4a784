from __future__ import annotations

import pytest

from pz_core.contract import ConnectorError, Option, Secret, option_set, reveal
from pz_core.errors import PzError, PzErrors, withhold
from pz_core.plan.connections import connection_config
from pz_core.plan.options import check_options


def faults(graph, registry, **named):
    with pytest.raises(PzErrors) as caught:
        check_options(graph, registry, **named)
    return [(e.code, str(e.where), e.message, e.hint or "") for e in caught.value]


def test_every_unknown_option_of_all_three_places_is_told_with_the_nearest_and_the_accepted_ones(lab):
    project = lab.project(
        **{"in": lab.Connection("in", "fake", {"rooot": "x"}), "out": lab.Connection("out", "fake", {"z": 1, "y": 2})}
    )
    graph = lab.graph(project_=project, sources=[lab.source(options={"formt": "csv"})])
    found = faults(graph, lab.registry())
    assert [f[0] for f in found] == ["PZ0301"] * 4
    text = " ".join(f[2] + f[3] for f in found)
    assert (
        "did you mean 'root'" in text and "did you mean 'format'" in text and "accepted options: root, password" in text
    )
    assert "in.a" in text and "'formt'" in text
    assert any(where == "pipelines/p.sql:2" for _, where, _, _ in found)


def test_a_wrong_value_is_named_and_a_secret_one_is_not_shown(lab):
    project = lab.project(
        **{"in": lab.Connection("in", "fake", {"password": ["hunter2"]}), "out": lab.Connection("out", "fake")}
    )
    (code, _, message, hint), *_ = faults(lab.graph(project_=project), lab.registry())
    assert code == "PZ0301" and "password" in message and "hunter2" not in message + hint


def test_a_sink_takes_the_connectors_options_and_the_strategys(lab):
    lab.strategies["strategy", "replace"] = lab.strategy(
        options=option_set(Option("delete_mode", "string", "m", choices=("soft",)))
    )
    good = lab.graph(sinks=[lab.sink(options={"path": "x", "delete_mode": "soft"})])
    assert check_options(good, lab.registry()) == ()
    bad = lab.graph(sinks=[lab.sink(options={"delet_mode": "soft"})])
    (fault,) = faults(bad, lab.registry())
    assert fault[0] == "PZ0301" and "did you mean 'delete_mode'" in fault[3] and "path" in fault[3]


def test_an_option_that_connector_and_strategy_both_declare_is_refused(lab):
    lab.strategies["strategy", "replace"] = lab.strategy(options=option_set(Option("path", "string", "p")))
    (fault,) = faults(lab.graph(), lab.registry())
    assert fault[0] == "PZ0705" and "'path'" in fault[2] and "replace" in fault[2] and "fake" in fault[2]


def test_unused_connections_are_looked_at_only_without_a_choice_of_nodes(lab):
    project = lab.project(
        **{
            "in": lab.Connection("in", "fake"),
            "out": lab.Connection("out", "fake"),
            "spare": lab.Connection("spare", "nowhere"),
        }
    )
    graph = lab.graph(project_=project)
    (fault,) = faults(graph, lab.registry())
    assert fault[0] == "PZ0305" and "spare" in fault[2] and "nowhere" in fault[2] and "fake" in fault[2]
    assert check_options(graph, lab.registry(), only=frozenset({"s1", "p1", "k1"})) == ()
    assert check_options(graph, lab.registry(), unused_connections=False) == ()


def test_the_connectors_own_faults_get_the_nodes_place(lab):
    fake = lab.connector(read_faults=(ConnectorError("path leaves the root", code="PZ0365"),))
    assert faults(lab.graph(), lab.registry(fake=fake))[0][:2] == ("PZ0365", "pipelines/p.sql:2")


def test_a_faulty_connection_is_not_asked_further(lab):
    fake = lab.connector(faults=(PzError("PZ0301", "a without b"),), read_faults=RuntimeError("must not be asked"))
    found = faults(lab.graph(), lab.registry(fake=fake))
    assert [f[0] for f in found] == ["PZ0301", "PZ0301"]


def test_a_check_that_raises_by_mistake_is_one_coded_fault_without_its_text(lab):
    fake = lab.connector(read_faults=RuntimeError("hunter2"))
    (fault,) = faults(lab.graph(), lab.registry(fake=fake))
    assert fault[0] == "PZ0501" and "RuntimeError" in fault[2] and "hunter2" not in fault[2] + fault[3]


def test_secrets_are_wrapped_and_numbers_become_text_where_text_is_wanted(lab):
    project = lab.project(**{"in": lab.Connection("in", "fake", {"root": 2026, "password": 123456})})
    config = connection_config(project, "in", lab.registry())
    assert config.options["root"] == "2026"
    assert isinstance(config.options["password"], Secret) and reveal(config.options["password"]) == "123456"
    assert "123456" not in repr(config)


def test_every_text_inside_a_secret_mapping_is_wrapped(lab):
    fake = lab.connector(connection_options=option_set(Option("headers", "mapping", "h", secret=True)))
    project = lab.project(**{"in": lab.Connection("in", "fake", {"headers": {"x": "hunter2", "y": ["z"]}})})
    config = connection_config(project, "in", lab.registry(fake=fake))
    assert "hunter2" not in str(config.options) and reveal(config.options["headers"]["x"]) == "hunter2"


def test_no_value_of_a_connection_stands_in_a_message_though_the_option_is_no_secret(lab):
    project = lab.project(
        **{"in": lab.Connection("in", "fake", {"root": {"a": "hunter2"}}), "out": lab.Connection("out", "fake")}
    )
    (code, _, message, hint), *_ = faults(lab.graph(project_=project), lab.registry())
    assert code == "PZ0301" and "'root' must be a text, got a mapping" in message
    assert "hunter2" not in message + hint


def test_a_value_of_a_read_is_shown_short_or_by_its_kind(lab):
    long = lab.graph(sources=[lab.source(options={"format": "x" * 100_000})])
    (_, _, message, _), *_ = faults(long, lab.registry())
    assert "must be one of csv, got 'xxx" in message and len(message) < 300
    nested = lab.graph(sources=[lab.source(options={"path": ["a", "b"]})])
    (_, _, message, _), *_ = faults(nested, lab.registry())
    assert "must be a text, got a list" in message


def test_what_is_wrapped_as_a_secret_is_withheld_from_messages(lab):
    project = lab.project(**{"in": lab.Connection("in", "fake", {"password": "tellnobody"})})
    connection_config(project, "in", lab.registry())
    assert "tellnobody" not in PzError("PZ0501", "login failed for password=tellnobody").render()
    withhold({}, afresh=True)
