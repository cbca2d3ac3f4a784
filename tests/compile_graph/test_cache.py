from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pz_core.compile import cache as cache_module
from pz_core.compile.artifacts import compiled_text, manifest_text
from pz_core.compile.cache import CompileCache, stamp_of
from pz_core.compile.graph import compile_project
from pz_core.compile.model import Graph, PipelineNode, RunConstants
from pz_core.errors import PzErrors
from pz_core.project import load_project

ENVIRON = {"TOKEN": "hush-1"}
RUN = RunConstants("20260102T030405000Z-00aa", "2026-01-02T03:04:05.000000Z")

PROJECT = "name: mill\nversion: 0.1.0\nenv: [TOKEN]\nvars:\n  floor: 3\n  days: [mon, tue]\n  map: {b: 1, a: 2}\n"
CONNECTIONS = (
    "yard:\n  connector: localfiles\n  root: in\n  entities:\n    grain:\n      read:\n        format: csv\n"
    "        columns: {id: bigint, seen: timestamp}\n"
    "lake: {connector: localfiles, root: out}\n"
)
PIPELINES = {
    "plain": "select 1 as a",
    "floored": "select id from {{ ref('plain') }} where id > {{ var('floor') }}",
    "looped": "select 1 {% for k in var('map') %}, {{ var('map')[k] }} as {{ k }} {% endfor %}",
    "perhaps": "select {% if var('later') is defined %}1{% else %}2{% endif %} as a",
    "small": "select * from {{ source('yard', 'flour', format: 'csv', columns: {b: 'int', a: 'varchar'}) }}",
    "incremental": "INSERT INTO {{ sink('lake', 'grain', strategy: 'append', duplicates: 'accept', keyz: [1, 2.0]) }}\n"
    "select * from {{ source('yard', 'grain') }} where seen > {{ watermark('yard', 'grain') }}",
    "secretive": "select '{{ env('TOKEN') }}' as t from {{ ref('small') }}",
    "stamped": "select '{{ run_id }}' as r, {{ var('floor') }} as f",
    "reader": "select * from {{ ref('small') }} join {{ ref('looped') }} using (a)",
}


class Mill:
    """A project on disk that is compiled with and without its cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environ = dict(ENVIRON)
        self.vars_json: str | None = None
        self.put("project.yml", PROJECT)
        self.put("connections.yml", CONNECTIONS)
        for name, text in PIPELINES.items():
            self.put(f"pipelines/{name}.sql", text)

    @property
    def file(self) -> Path:
        return self.root / ".pz" / "target" / "compile.cache"

    def put(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def compile(self, *, cached: bool, constants: RunConstants | None = None, keep: bool = True) -> Graph:
        loaded = load_project(self.root, environ=self.environ, vars_json=self.vars_json)
        cache = CompileCache.of(loaded) if cached else None
        graph = compile_project(loaded, environ=self.environ, constants=constants, cache=cache)
        if cache is not None and keep:
            cache.save()
        return graph

    def outcome(self, *, cached: bool, constants: RunConstants | None = None) -> object:
        """All that can be told of a compile, faults too."""
        try:
            graph = self.compile(cached=cached, constants=constants)
        except PzErrors as errors:
            return [e.render() for e in errors], [n.render() for n in errors.notices]
        texts = {n.name: compiled_text(n) for n in graph.nodes if isinstance(n, PipelineNode)}
        return graph.nodes, graph.flows, graph.notices, manifest_text(graph), texts


@pytest.fixture
def mill(tmp_path: Path) -> Mill:
    return Mill(tmp_path)


@pytest.fixture
def renders(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pipelines that were really rendered or inferred."""
    from pz_core.compile import template, watermark

    done: list[str] = []
    render, infer = template.render, watermark.infer

    def counted_render(pipeline, *args, **kwargs):
        done.append(pipeline.name)
        return render(pipeline, *args, **kwargs)

    def counted_infer(*args, **kwargs):
        done.append(f"infer {kwargs['pipeline']}")
        return infer(*args, **kwargs)

    monkeypatch.setattr(template, "render", counted_render)
    monkeypatch.setattr(watermark, "infer", counted_infer)
    return done


WITH_ISLANDS = sorted(name for name, text in PIPELINES.items() if "{" in text)


def test_nothing_that_did_not_change_is_rendered_again(mill, renders):
    first = mill.outcome(cached=True)
    assert sorted(renders) == sorted([*WITH_ISLANDS, "plain", "infer incremental"])
    renders.clear()
    assert mill.outcome(cached=True) == first
    # `plain` has nothing to render, and what env() brings in is never kept.
    assert sorted(renders) == ["plain", "secretive"]


@pytest.mark.parametrize(
    ("file", "old", "new", "again"),
    [
        ("project.yml", "floor: 3", "floor: 4", {"floored", "stamped"}),
        ("project.yml", "floor: 3", "floor: '3'", {"floored", "stamped"}),
        ("project.yml", "{b: 1, a: 2}", "{a: 2, b: 1}", {"looped"}),
        ("project.yml", "vars:", "vars:\n  later: 1", {"perhaps"}),
        ("project.yml", "vars:", "vars:\n  never_read: 1", set()),
        ("pipelines/small.sql", "'flour'", "'rye'", {"small"}),
        ("connections.yml", "seen: timestamp", "seen: date", {"infer incremental"}),
        ("connections.yml", "root: in", "root: inn", set()),
    ],
)
def test_an_edit_renders_what_read_it_and_nothing_else(mill, renders, file, old, new, again):
    mill.outcome(cached=True)
    text = (mill.root / file).read_text()
    assert text.count(old) == 1
    mill.put(file, text.replace(old, new))
    renders.clear()
    warm = mill.outcome(cached=True)
    assert set(renders) - {"plain", "secretive"} == again
    assert warm == mill.outcome(cached=False)


def test_a_pipeline_that_becomes_ephemeral_renders_its_readers_again(mill, renders):
    mill.outcome(cached=True)
    mill.put("pipelines/configs/looped.yml", "pipeline: looped\nmaterialization: ephemeral\n")
    renders.clear()
    warm = mill.outcome(cached=True)
    assert set(renders) - {"plain", "secretive"} == {"reader"}
    assert warm == mill.outcome(cached=False)


def test_a_run_uses_what_does_not_show_the_run(mill, renders):
    mill.outcome(cached=True)
    renders.clear()
    run = mill.outcome(cached=True, constants=RUN)
    # Once as the run shows it; as every run has it, it is in the cache.
    assert sorted(set(renders) - {"plain", "secretive"}) == ["stamped"]
    assert renders.count("stamped") == 1
    assert run == mill.outcome(cached=False, constants=RUN)
    renders.clear()
    mill.outcome(cached=True)
    assert set(renders) == {"plain", "secretive"}, "the run took nothing out of the cache"


def test_what_a_run_shows_never_gets_in(mill):
    mill.outcome(cached=True, constants=RUN)
    assert mill.file.exists() and RUN.run_id not in mill.file.read_text()
    assert mill.outcome(cached=True) == mill.outcome(cached=False)


def test_values_from_outside_the_files_never_get_in(mill):
    mill.put("project.yml", PROJECT.replace("floor: 3", "floor: ${TOKEN}"))
    mill.vars_json = '{"days": ["hush-2"]}'
    mill.put("pipelines/more.sql", "select '{{ var('days')[0] }}' as d where {{ var('floor') is defined }}")
    mill.put("pipelines/eph.sql", "select '{{ env('TOKEN') }}' as t")
    mill.put("pipelines/configs/eph.yml", "pipeline: eph\nmaterialization: ephemeral\n")
    mill.put(
        "pipelines/shows.sql",
        "select o.* from {{ source('yard', 'oats', format: 'csv') }} as o join {{ ref('eph') }} as e using (t) "
        "where o.seen > {{ watermark('yard', 'oats') }}",
    )
    cold = mill.outcome(cached=False)
    assert "hush-1" in str(cold) and "hush-2" in str(cold)
    assert mill.outcome(cached=True) == cold
    kept = mill.file.read_text()
    assert "hush" not in kept
    for secret in ("hush-1", "hush-2"):
        assert hashlib.sha256(json.dumps(secret).encode()).hexdigest() not in kept
    mill.environ["TOKEN"] = "hush-3"
    assert mill.outcome(cached=True) == mill.outcome(cached=False)


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_only_the_owner_reads_the_file(mill):
    mill.compile(cached=True)
    assert stat.S_IMODE(mill.file.stat().st_mode) == 0o600


def test_an_unchanged_project_leaves_the_file_alone(mill):
    mill.compile(cached=True)
    before = mill.file.stat()
    mill.compile(cached=True)
    after = mill.file.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_pipelines_that_are_gone_leave_the_file(mill):
    mill.compile(cached=True)
    assert "floored" in mill.file.read_text()
    (mill.root / "pipelines/floored.sql").unlink()
    mill.compile(cached=True)
    assert "floored" not in mill.file.read_text()


def test_reading_alone_writes_nothing(mill):
    mill.compile(cached=True, keep=False)
    assert not (mill.root / ".pz").exists()


@pytest.mark.parametrize("what", ["__version__", "python", "library", "strategies", "code"])
def test_other_versions_make_it_void(mill, renders, monkeypatch, what):
    mill.compile(cached=True)
    if what == "__version__":
        monkeypatch.setattr(cache_module, "__version__", "1.0.1")
    elif what == "python":
        monkeypatch.setattr(cache_module.sys, "version", "3.99.0 (main)")
    elif what == "library":
        from pz_core.plugins import Registry

        known = Registry.version
        monkeypatch.setattr(Registry, "version", lambda self, name: "9" if name == "jinja2" else known(self, name))
    elif what == "strategies":
        mill.put("project.yml", PROJECT + "connectors:\n  - {package: pz-connector-localfiles}\n")
        from msgspec import structs

        from pz_core.plugins import Registry

        offers = Registry.offers.fget
        monkeypatch.setattr(
            Registry,
            "offers",
            property(
                lambda self: [structs.replace(o, version="7") if o.kind == "strategy" else o for o in offers(self)]
            ),
        )
    else:
        monkeypatch.setattr(cache_module, "_code", lambda: [("compile/template.py", 1, 2)])
    renders.clear()
    mill.compile(cached=True)
    assert set(WITH_ISLANDS) <= set(renders)


def test_the_stamp_knows_the_libraries(mill):
    registry = load_project(mill.root, environ=ENVIRON).registry
    assert registry.version("jinja2") and registry.version("duckdb") and registry.version("no-such-thing") is None
    assert stamp_of(registry) == stamp_of(load_project(mill.root, environ=ENVIRON).registry)


def signed(head: bytes, body: bytes) -> bytes:
    """A file whose digest fits, as only somebody who wants to deceive would make it."""
    words = head.split(b" ")
    words[2] = hashlib.sha256(body).hexdigest().encode()
    return b" ".join(words) + b"\n" + body


@pytest.mark.parametrize(
    "damage",
    [
        lambda head, body: b"",
        lambda head, body: head,
        lambda head, body: head + b"\n",
        lambda head, body: head + b"\n" + body[: len(body) // 2],
        lambda head, body: head + b"\n" + body.replace(b"select", b"delete", 1),
        lambda head, body: b"\x00" * 4096,
        lambda head, body: b"\xff\xfe\n\n",
        lambda head, body: signed(head, b"[]"),
        lambda head, body: signed(head, b"[{}]"),
        lambda head, body: signed(head, b'[{"floored":7},{"incremental":[]}]'),
        lambda head, body: signed(head, b"[" * 100_000),
        lambda head, body: signed(head, b"\xff"),
        lambda head, body: signed(head, body.replace(b'"made":[', b'"made":[[],')),
        lambda head, body: signed(head, body.replace(b'"made":', b'"maid":')),
        lambda head, body: signed(head, body.replace(b'"variables":{', b'"variables":{"":7,')),
        lambda head, body: signed(head, body.replace(b"false", b"{}")),
        lambda head, body: signed(head, body.replace(b'"select', b'7,"select')),
    ],
)
def test_a_file_that_is_torn_or_foreign_counts_as_none(mill, damage):
    cold = mill.outcome(cached=True)
    head, _, body = mill.file.read_bytes().partition(b"\n")
    mill.file.write_bytes(damage(head, body))
    assert mill.outcome(cached=True) == cold
    assert mill.file.read_bytes() == head + b"\n" + body, "and is made good"


def test_places_that_cannot_be_read_or_written_are_no_fault(mill):
    cold = mill.outcome(cached=False)
    mill.file.mkdir(parents=True)
    assert mill.outcome(cached=True) == cold
    shutil.rmtree(mill.root / ".pz")
    mill.put(".pz", "a file where a folder belongs")
    assert mill.outcome(cached=True) == cold


def test_a_fault_is_told_each_time(mill):
    mill.put("pipelines/broken.sql", "select {{ var('nothing') }}")
    assert mill.outcome(cached=True) == mill.outcome(cached=False)
    mill.put("pipelines/broken.sql", "select 1")
    mill.outcome(cached=True)
    mill.put("pipelines/broken.sql", "select {{ var('nothing') }}")
    assert mill.outcome(cached=True) == mill.outcome(cached=False)


def test_two_writers_leave_one_whole_file(mill):
    loaded = load_project(mill.root, environ=ENVIRON)
    caches = [CompileCache.of(loaded), CompileCache.of(loaded)]
    for cache in caches:
        compile_project(loaded, environ=ENVIRON, cache=cache)
    for cache in caches:
        cache.save()
    assert [p.name for p in mill.file.parent.iterdir()] == ["compile.cache"]
    assert mill.outcome(cached=True) == mill.outcome(cached=False)


# --- any edits at all -------------------------------------------------------------------------------------------------

NAMES = st.sampled_from([*PIPELINES, "fresh"])
TEXTS = st.sampled_from(
    [
        *PIPELINES.values(),
        "select {{ var('floor') }} as f, '{{ this }}' as t",
        "select '{{ run_started_at }}' as s from {{ ref('floored') }}",
        "INSERT INTO {{ sink('lake', 'x', strategy: 'merge', keys: ['id'], retry: { max_attempts: 2 }) }} select 1",
        "select {{ broken",
        "select * from {{ ref('nowhere') }}",
    ]
)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("pipeline"), NAMES, TEXTS),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("ephemeral"), NAMES, st.booleans()),
        st.tuples(st.just("floor"), st.sampled_from(["3", "'3'", "3.0", "true", "[3]", "${TOKEN}", "{a: 1}"])),
        st.tuples(st.just("vars"), st.sampled_from([None, '{"floor": 3}', '{"later": "x"}'])),
        st.tuples(st.just("token"), st.sampled_from(["hush-1", "hush-2", ""])),
        st.tuples(st.just("run")),
        st.tuples(st.just("contract"), st.sampled_from(["timestamp", "date", "varchar"])),
    ),
    min_size=1,
    max_size=5,
)


def edited(mill: Mill, edit: tuple) -> None:
    what, *rest = edit
    if what == "pipeline":
        mill.put(f"pipelines/{rest[0]}.sql", rest[1])
    elif what == "delete":
        (mill.root / f"pipelines/{rest[0]}.sql").unlink(missing_ok=True)
        (mill.root / f"pipelines/configs/{rest[0]}.yml").unlink(missing_ok=True)
    elif what == "ephemeral" and (mill.root / f"pipelines/{rest[0]}.sql").exists():
        words = "ephemeral" if rest[1] else "view"
        mill.put(f"pipelines/configs/{rest[0]}.yml", f"pipeline: {rest[0]}\nmaterialization: {words}\n")
    elif what == "floor":
        mill.put("project.yml", PROJECT.replace("floor: 3", f"floor: {rest[0]}"))
    elif what == "vars":
        mill.vars_json = rest[0]
    elif what == "token":
        mill.environ["TOKEN"] = rest[0]
    elif what == "contract":
        mill.put("connections.yml", CONNECTIONS.replace("seen: timestamp", f"seen: {rest[0]}"))


def after_any_edits(edits: list[tuple]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mill = Mill(Path(folder))
        mill.outcome(cached=True)
        for edit in edits:
            edited(mill, edit)
            constants = RUN if edit[0] == "run" else None
            assert mill.outcome(cached=True, constants=constants) == mill.outcome(cached=False, constants=constants)


@settings(max_examples=12)
@given(EDITS)
def test_a_warm_compile_is_a_cold_one_whatever_was_edited(edits):
    after_any_edits(edits)


@pytest.mark.deep
@settings(max_examples=2_000)
@given(EDITS)
def test_a_warm_compile_is_a_cold_one_many_times(edits):
    after_any_edits(edits)
