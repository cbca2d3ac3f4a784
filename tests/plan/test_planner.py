from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from pz_core.compile.model import Incremental, WatermarkBound
from pz_core.contract import ConnectorError
from pz_core.errors import PzErrors
from pz_core.plan.artifacts import plan_as_dict, write_plan
from pz_core.plan.planner import make_plan
from pz_core.project.model import EngineConfig, RateLimit, RetryConfig, SyncConfig


def codes(call, *args, **named):
    with pytest.raises(PzErrors) as caught:
        call(*args, **named)
    return [e.code for e in caught.value], " | ".join(e.render() for e in caught.value)


def test_native_is_preferred_on_both_sides_and_the_reason_names_mechanism_and_shape(lab):
    plan = make_plan(lab.graph(), lab.registry())
    source, pipeline, sink = plan.nodes
    assert (source.strategy, pipeline.strategy, sink.strategy) == ("native_scan", "duck_sql", "native_copy")
    assert "read_csv" in source.reason and source.reason.endswith("read=full")
    assert "copy_csv" in sink.reason
    assert source.task.tier == sink.task.tier == "native"


def test_a_table_that_duckdb_writes_counts_as_native_copy(lab):
    table = lab.connector(copy=lab.NativeTarget("m", "main", "b", "attach"))
    assert make_plan(lab.graph(), lab.registry(fake=table)).of("k1").strategy == "native_copy"


def test_force_universal_streams_and_refuses_what_is_native_only(lab):
    project = lab.project(EngineConfig(force_universal=True))
    plan = make_plan(lab.graph(project_=project), lab.registry())
    assert [n.strategy for n in plan.nodes] == ["arrow_stream", "duck_sql", "arrow_stream"]
    native = lab.connector(capabilities=replace(lab.files, universal_read=False, universal_write=False))
    found, text = codes(make_plan, lab.graph(project_=project), lab.registry(fake=native))
    assert found == ["PZ0312", "PZ0312"]
    assert "in.a" in text and "out.b" in text and "fake" in text


def test_a_connector_that_declines_its_native_read_streams(lab):
    plan = make_plan(lab.graph(), lab.registry(fake=lab.connector(scan=None)))
    assert plan.of("s1").strategy == "arrow_stream"


def test_probing_closes_what_it_opened(lab):
    fake = lab.connector()
    make_plan(lab.graph(), lab.registry(fake=fake))
    assert fake.closed == 2


def test_the_refusal_of_a_native_read_is_raised_for_what_runs_and_kept_for_what_does_not(lab):
    fake = lab.connector(scan=ConnectorError("the contract's order is not the file's", code="PZ0353"))
    found, text = codes(make_plan, lab.graph(), lab.registry(fake=fake))
    assert found == ["PZ0353"] and "in.a" in text and "pipelines/p.sql:2" in text
    plan = make_plan(lab.graph(), lab.registry(fake=fake), executed=frozenset({"p1"}))
    assert plan.of("s1").refusal.code == "PZ0353"
    assert plan_as_dict(plan)["nodes"][0]["refusal"]["code"] == "PZ0353"


def test_what_a_plugin_raises_by_mistake_is_a_coded_refusal_without_its_text(lab):
    found, text = codes(make_plan, lab.graph(), lab.registry(fake=lab.connector(scan=KeyError("hunter2"))))
    assert found == ["PZ0353"] and "KeyError" in text and "hunter2" not in text


def test_a_strategy_that_the_connector_lacks_is_told_once_with_all_outputs_and_the_way_out(lab):
    sinks = [
        lab.sink(strategy="merge", keys=("id",)),
        lab.sink(id="k2", name="out.c", entity="c", strategy="merge", keys=("id",)),
    ]
    found, text = codes(make_plan, lab.graph(sinks=sinks), lab.registry())
    assert found == ["PZ0324"]
    for word in ("out.b", "out.c", "merge", "fake", "append, replace"):
        assert word in text


def test_the_best_way_that_strategy_and_connector_share_is_chosen(lab):
    lab.strategies["strategy", "replace"] = lab.strategy(modes=("program", "rewrite", "swap"))
    able = replace(lab.files, load_modes=frozenset({"swap", "rewrite"}))
    plan = make_plan(lab.graph(), lab.registry(fake=lab.connector(capabilities=able)))
    assert plan.of("k1").task.write.load_mode == "rewrite"


@pytest.mark.parametrize(
    ("over", "code", "word"),
    [
        ({"schema_policy": "evolve"}, "PZ0324", "evolve"),
        ({"strategy": "append", "duplicates": "refuse"}, "PZ0324", "ledger"),
        ({"on_delete": "soft"}, "PZ0339", "soft"),
        ({"options": {"partition_by": "day"}}, "PZ0314", "partition_by"),
        ({"options": {"path": "x/{yyyy}/{MM}/"}}, "PZ0314", "calendar"),
    ],
)
def test_a_sink_is_refused_what_its_connector_cannot_do(lab, over, code, word):
    found, text = codes(make_plan, lab.graph(sinks=[lab.sink(**over)]), lab.registry())
    assert found == [code] and word in text and "out.b" in text and "fake" in text


def test_a_reserved_token_that_is_no_calendar_token_passes(lab):
    make_plan(lab.graph(sinks=[lab.sink(options={"path": "/c/{key}"})]), lab.registry())


@pytest.mark.parametrize(
    ("over", "code", "word"),
    [
        ({"sync": SyncConfig("cdc")}, "PZ0338", "changes"),
        ({"options": {"path": "e/{yyyy}/*.csv"}}, "PZ0314", "calendar"),
    ],
)
def test_a_source_is_refused_what_its_connector_cannot_do(lab, over, code, word):
    found, text = codes(make_plan, lab.graph(sources=[lab.source(**over)]), lab.registry())
    assert found == [code] and word in text and "in.a" in text


@pytest.mark.parametrize("declared", ["window", "ceiling"])
def test_an_upper_bound_needs_a_connector_that_reads_up_to_one(lab, declared):
    if declared == "window":
        sync = SyncConfig("incremental", "ts", max_window="7d", initial="2026-01-01")
        incremental = lab.Incremental("ts", "timestamp", sync)
    else:
        incremental = lab.Incremental("ts", "timestamp", None, (WatermarkBound("<=", "x"),))
    graph = lab.graph(sources=[lab.source(incremental=incremental)], sinks=[])
    assert codes(make_plan, graph, lab.registry())[0] == ["PZ0313"]
    able = lab.connector(capabilities=replace(lab.files, bounded_window=True))
    node = make_plan(graph, lab.registry(fake=able)).of("s1")
    assert "read=incremental cursor=ts" in node.reason
    assert node.task.read.bounds.cursor == "ts" and node.task.read.bounds.upper is None


def test_a_feed_is_refused_a_cursor_a_complete_batch_and_an_append_without_consent(lab):
    feed = lab.connector(shape="feed", capabilities=replace(lab.files, sync_state=True))
    registry = lab.registry(fake=feed)
    cursor = lab.source(incremental=lab.Incremental("ts", "timestamp"))
    assert codes(make_plan, lab.graph(sources=[cursor], sinks=[]), registry)[0] == ["PZ0315"]
    assert codes(make_plan, lab.graph(), registry)[0] == ["PZ0335"]
    assert codes(make_plan, lab.graph(sinks=[lab.sink(strategy="append")]), registry)[0] == ["PZ0214"]
    consent = lab.graph(sinks=[lab.sink(strategy="append", duplicates="accept")])
    assert make_plan(consent, registry).of("s1").read_shape == "feed"


def test_rate_limit_is_refused_once_a_connection(lab):
    slow = lab.Connection("in", "fake", rate_limit=RateLimit(60))
    project = lab.project(**{"in": slow, "out": lab.Connection("out", "fake")})
    sources = [lab.source(), lab.source(id="s2", name="src_in__z", entity="z")]
    found, text = codes(make_plan, lab.graph(sources=sources, project_=project), lab.registry())
    assert found == ["PZ0317"] and "'in'" in text


def test_three_dotted_parts_are_refused_where_two_are_the_limit(lab):
    sql = lab.connector(capabilities=replace(lab.files, two_part_names=True))
    graph = lab.graph(sources=[lab.source(entity="x.y.z")], sinks=[lab.sink(entity="q.r.s")])
    found, text = codes(make_plan, graph, lab.registry(fake=sql))
    assert found == ["PZ0353", "PZ0353"] and "x.y.z" in text and "q.r.s" in text


def test_all_refusals_of_a_plan_come_together(lab):
    graph = lab.graph(sources=[lab.source(sync=SyncConfig("cdc"))], sinks=[lab.sink(schema_policy="evolve")])
    assert codes(make_plan, graph, lab.registry())[0] == ["PZ0324", "PZ0338"]


def test_retry_cascades_field_by_field_and_a_cap_below_the_base_is_refused(lab):
    connection = lab.Connection("in", "fake", retry=RetryConfig(max_attempts=7, base_delay_ms=2_000))
    project = lab.project(**{"in": connection, "out": lab.Connection("out", "fake")})
    graph = lab.graph(sources=[lab.source(retry=RetryConfig(max_attempts=2))], project_=project)
    policy = make_plan(graph, lab.registry()).of("s1").retry
    assert (policy.max_attempts, policy.base_delay_ms, policy.max_delay_ms) == (2, 2_000, 30_000)
    graph = lab.graph(sources=[lab.source(retry=RetryConfig(max_delay_ms=500))])
    assert codes(make_plan, graph, lab.registry())[0] == ["PZ0121"]


def test_the_guarantee_follows_from_the_strategys_traits(lab):
    able = lab.connector(capabilities=replace(lab.files, ledger=True))
    sinks = [
        lab.sink(),
        lab.sink(id="k2", name="out.c", strategy="append"),
        lab.sink(id="k3", name="out.d", strategy="append", duplicates="refuse"),
    ]
    for read, refusing in (
        (None, "at least once"),
        (Incremental("id", sync=SyncConfig("incremental")), "effectively once"),
    ):
        graph = lab.graph(sources=[lab.source(incremental=read)], sinks=sinks)
        plan = make_plan(graph, lab.registry(fake=able))
        assert [plan.of(i).guarantee for i in ("k1", "k2", "k3")] == ["effectively once", "at least once", refusing]


def test_source_system_is_the_one_connection_of_all_sources(lab):
    assert make_plan(lab.graph(), lab.registry()).of("k1").task.source_system == "in"
    two = [lab.source(), lab.source(id="s2", name="src_out__z", connection="out", entity="z")]
    assert make_plan(lab.graph(sources=two), lab.registry()).of("k1").task.source_system is None
    assert make_plan(lab.graph(sources=[]), lab.registry()).of("k1").task.source_system is None


def test_an_unknown_connector_is_one_error_a_connection(lab):
    project = lab.project(**{"in": lab.Connection("in", "nowhere"), "out": lab.Connection("out", "fake")})
    sources = [lab.source(), lab.source(id="s2", name="src_in__z", entity="z")]
    found, text = codes(make_plan, lab.graph(sources=sources, project_=project), lab.registry())
    assert found == ["PZ0305"] and "'in'" in text and "nowhere" in text


def test_plan_json_has_the_promised_fields_and_is_byte_stable(lab):
    plan = make_plan(lab.graph(), lab.registry())
    path = write_plan(plan)
    text = path.read_text()
    assert write_plan(plan).read_text() == text
    found = json.loads(text)
    assert found["version"] == 1
    assert [n["name"] for n in found["nodes"]] == ["src_in__a", "p", "out.b"]
    assert {"id", "kind", "name", "strategy", "partitions", "reason"} <= set(found["nodes"][0])
    assert "columns_pushed" not in found["nodes"][0]
    assert list(path.parent.iterdir()) == [path]


def test_modules_that_an_edge_needs_are_those_that_its_connector_names_for_it(lab):
    def named(spec):
        return ["reader"] if hasattr(spec, "bounds") else ("writer", "driver")

    plan = make_plan(lab.graph(), lab.registry(fake=lab.connector(imports=staticmethod(named))))
    assert [node.imports for node in plan.nodes] == [("reader",), (), ("writer", "driver")]
    assert "imports" not in plan_as_dict(plan)["nodes"][0]


@pytest.mark.parametrize(
    "imports",
    [
        None,
        ("driver",),
        *(staticmethod(f) for f in (lambda s: 1 / 0, lambda s: None, lambda s: "os", lambda s: [[], 1])),
    ],
)
def test_no_plan_fails_for_modules_that_are_named_wrongly_or_not_at_all(lab, imports):
    plan = make_plan(lab.graph(), lab.registry(fake=lab.connector(imports=imports)))
    assert [node.imports for node in plan.nodes] == [(), (), ()]
