"""Whatever stands in a project's files: a graph or coded errors, and the same graph wherever it is compiled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pz_core.codes import CODES
from pz_core.compile.artifacts import compiled_text, manifest_text, write_target
from pz_core.compile.cache import CompileCache
from pz_core.compile.dry import dry_compile
from pz_core.compile.graph import compile_project
from pz_core.compile.model import PipelineNode
from pz_core.errors import PzErrors
from pz_core.project import load_project

ENVIRON = {"SHOWN": "s'1", "ODD": "\udcff\ud800", "EMPTY": ""}
PROJECT = (
    "name: r\nversion: 0.1.0\nenv: [SHOWN, ODD, EMPTY, UNSET]\n"
    "vars: {n: 3, f: 1.5, t: \"it's\", l: [1, a], m: {a: 1, b: [2]}, e: '${EMPTY}', big: .nan}\n"
)
CONNECTIONS = (
    "yard:\n  connector: localfiles\n  root: in\n  entities:\n"
    "    a:\n      read: {format: csv, columns: {id: bigint, ts: timestamp}}\n"
    "    b:\n      read:\n        sync: {mode: incremental, cursor: ts}\n    c:\n"
    "lake: {connector: localfiles, root: out, retry: {max_attempts: 2}}\nelse_: {connector: nowhere}\n"
)

NAMES = ("a", "b", "stg", "x1", "src_yard__a", "Stg", "__pz_cte__a", "select", "été")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
WORDS = st.sampled_from(
    [
        "a",
        "b",
        "c",
        "a.b",
        "a.b.c",
        "A",
        " ",
        "",
        "a b",
        ".",
        "yard",
        "lake",
        "else_",
        "n",
        "m",
        "SHOWN",
        "ODD",
        "UNSET",
    ]
)
KEYS = st.sampled_from(
    [
        *("columns", "sync", "retry", "strategy", "keys", "duplicates", "on_delete", "schema_policy", "format", "path"),
        *("strategyy", "mode", "write", "input", "rate_limit", "max_concurrency", "schema", "table", "incremental"),
        *("partition_by", "files_per_partition", "partitions", "header", "query", "cursor_type", "keyz", "x"),
    ]
)
CHOICES = st.sampled_from(
    [
        *("'append'", "'replace'", "'merge'", "'accept'", "'refuse'", "'csv'", "['id']", "'x/{yyyy}/{MM}'", "{}", "[]"),
        *("{ id: 'int' }", "{ mode: 'incremental', cursor: 'ts', max_window: '1d', initial: '2026-01-01' }"),
        *("{ max_attempts: 2 }", "1e999", "none", "true", "-1", "0", "99999999999999999999", "0.1"),
        *("this", "run_id", "run_started_at", "nope"),
    ]
)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


VALUES: st.SearchStrategy[str] = st.recursive(
    st.one_of(CHOICES, WORDS.map(quoted), TEXT.map(quoted), st.just("'\\ud800'"), st.integers().map(str)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(KEYS, inner), max_size=3).map(lambda i: "{ " + ", ".join(f"{k}: {v}" for k, v in i) + " }"),
        inner.map(lambda v: f"var({v})"),
        inner.map(lambda v: f"({v} | join(','))"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]} ~ {p[1]}"),
    ),
    max_leaves=4,
)
CALLS = st.builds(
    lambda name, args, kwargs, mark: f"{name}({', '.join([*args, *(f'{k}{mark} {v}' for k, v in kwargs)])})",
    st.sampled_from(["source", "sink", "ref", "watermark", "var", "env", "nothing"]),
    st.one_of(
        st.lists(st.sampled_from(["yard", "lake", "a", "b", "c", "stg"]).map(quoted), min_size=1, max_size=2),
        st.lists(VALUES, max_size=3),
    ),
    st.lists(st.tuples(KEYS, VALUES), max_size=3),
    st.sampled_from([":", " ="]),
)
SQL = st.sampled_from(
    [
        *("select * from ", "select 1 as id", " where ts > ", " and ts <= ", " join ", " union all ", "insert into "),
        *("with q as (", ")", " -- note\n", "/* ", " */", "'", '"', "$$", ";", " ", "\n", "\r\n", "(select ts from "),
        *("{{", "}}", "{%", "%}", "{#", "#}", "{{ '{{' }}", "null", "date_trunc('day', ", "+ interval 1 day", "E'\\"),
    ]
)
PIECES = st.one_of(
    SQL,
    TEXT,
    CALLS.map(lambda call: f"{{{{ {call} }}}}"),
    CALLS.map(lambda call: f"INSERT INTO {{{{ {call} }}}} select 1 as id"),
    VALUES.map(lambda value: f"{{{{ {value} }}}}"),
    st.tuples(VALUES, SQL).map(lambda p: f"{{% if {p[0]} %}}{p[1]}{{% endif %}}"),
    st.tuples(VALUES, SQL).map(lambda p: f"{{% for i in {p[0]} %}}{p[1]}{{{{ i }}}}{{% endfor %}}"),
    VALUES.map(lambda value: f"{{% set v = {value} %}}{{{{ v }}}}"),
)
WILD = st.lists(PIECES, max_size=6).map("".join)

READ_OPTIONS = st.lists(
    st.sampled_from(
        [
            "format: 'csv'",
            "format: var('t')",
            "columns: { id: 'bigint', ts: 'timestamp' }",
            "columns: { id: 'bigint' }",
            "sync: { mode: 'incremental', cursor: 'ts' }",
            "path: 'in/*.csv'",
            "partitions: var('n')",
            "header: false",
            "x: var('m')",
            "x: env('SHOWN')",
            "x: run_id",
        ]
    ),
    unique=True,
    max_size=3,
)
WRITE_OPTIONS = st.lists(
    st.sampled_from(
        [
            "strategy: 'replace'",
            "strategy: 'merge', keys: ['id']",
            "strategy: 'append', duplicates: 'accept'",
            "format: 'parquet'",
            "path: 'o/'",
            "retry: { max_attempts: 2 }",
            "keyz: [1, 2.5, true]",
            "x: run_started_at",
            "x: env('SHOWN')",
        ]
    ),
    unique=True,
    max_size=3,
)
ENTITIES = st.sampled_from(["a", "b", "c", "d", "e.f", "g"])


def call(name: str, place: str, entity: str, options: list[str]) -> str:
    return f"{{{{ {name}({', '.join([quoted(place), quoted(entity), *options])}) }}}}"


def likely(draw: Any) -> str:
    """A pipeline that could be meant."""
    place, entity = draw(st.sampled_from(["yard", "lake"])), draw(ENTITIES)
    options = draw(READ_OPTIONS) if (place, entity) not in {("yard", "a"), ("yard", "b")} else []
    source = draw(st.sampled_from([call("source", place, entity, options), "{{ ref('a') }}", "(select 1 as id)"]))
    made = f"select id, {draw(st.sampled_from(['id', VAR, 'RUN', 'ENV', 'THIS']))} as v from {source} as s"
    made = (
        made.replace("RUN", "'{{ run_id }}'")
        .replace(
            "ENV", draw(st.sampled_from(["'{{ env('SHOWN') | length }}'", "{{ env('ODD') }}", "'{{ env('EMPTY') }}'"]))
        )
        .replace("THIS", "'{{ this }}'")
    )
    if "source(" in source and draw(st.booleans()):
        mark = call("watermark", place, entity, [])
        made += draw(
            st.sampled_from(
                [
                    f" where ts > {mark}",
                    f" where s.ts >= {mark} - interval 2 hour",
                    f" where ts > coalesce({mark}, TIMESTAMP '2026-01-01') and ts <= {mark} + interval 7 day",
                    f" where ts = {mark}",
                    f" where ts < {mark}",
                    f" where not (ts > {mark})",
                ]
            )
        )
    if draw(st.booleans()):
        made = f"INSERT INTO {call('sink', 'lake', draw(ENTITIES), draw(WRITE_OPTIONS))}\n{made}"
    return made


VAR = "{{ var('n') }}"


@st.composite
def projects(draw: Any) -> dict[str, str]:
    """Pipelines by name; one in ten is wild, and so is one name in ten."""
    made: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 4))):
        wild = draw(st.integers(0, 9)) == 0
        name = draw(st.sampled_from(NAMES if draw(st.integers(0, 9)) == 0 else NAMES[:4]))
        made[name] = draw(WILD) if wild else likely(draw)
    return made


PIPELINES = projects()
SIDECARS = st.dictionaries(
    st.sampled_from(NAMES[:4]),
    st.sampled_from(
        [
            "materialization: ephemeral\n",
            "materialization: view\ntags: [t]\n",
            "checks:\n  - not_null: [id]\n",
            "checks:\n  - custom_sql: {name: a, sql: select 1}\n  - row_count: {min: 1}\n",
        ]
    ),
    max_size=3,
)


def compile_anything(pipelines: dict[str, str], sidecars: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {"project.yml": PROJECT, "connections.yml": CONNECTIONS}
        files |= {f"pipelines/{name}.sql": text for name, text in pipelines.items()}
        files |= {f"pipelines/configs/{n}.yml": f"pipeline: {n}\n{t}" for n, t in sidecars.items() if n in pipelines}
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(text.encode())
        outcomes = []
        for _ in range(2):
            try:
                loaded = load_project(root, environ=ENVIRON)
                cache = CompileCache.of(loaded)
                graph = compile_project(loaded, environ=ENVIRON, cache=cache)
                cache.save()
                dry_compile(graph)
                write_target(graph)
                outcomes.append(manifest_text(graph))
            except PzErrors as errors:
                for error in errors:
                    assert error.code in CODES
                    assert "\n" not in error.render() and "Traceback" not in error.render()
                    assert ENVIRON["SHOWN"] not in error.render() or any(ENVIRON["SHOWN"] in t for t in files.values())
                outcomes.append("\n".join(e.render() for e in errors))
        assert outcomes[0] == outcomes[1]


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(PIPELINES, SIDECARS)
def test_a_project_is_a_graph_or_coded_errors(pipelines: dict[str, str], sidecars: dict[str, str]) -> None:
    compile_anything(pipelines, sidecars)


@pytest.mark.deep
@settings(max_examples=5_000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(PIPELINES, SIDECARS)
def test_a_project_is_a_graph_or_coded_errors_many_times(pipelines: dict[str, str], sidecars: dict[str, str]) -> None:
    compile_anything(pipelines, sidecars)


# --- the same everywhere ----------------------------------------------------------------------------------------------

RICH = {
    "project.yml": "name: wares\nversion: 0.1.0\nvars: {n: 3, names: [b, a]}\n",
    "connections.yml": "yard:\n  connector: localfiles\n  root: in\n  entities:\n    stock:\n      read:\n"
    "        format: csv\n        columns: {id: bigint, seen: timestamp}\nlake: {connector: localfiles, root: out}\n",
    "pipelines/stock.sql": "INSERT INTO {{ sink('lake', 'stock', strategy: 'append', duplicates: 'accept') }}\n"
    "-- Ümläut\nselect *\nfrom {{ source('yard', 'stock') }}\nwhere seen > {{ watermark('yard', 'stock') }};\n",
    "pipelines/deep/er/names.sql": "select {% for n in var('names') %}\n  1 as {{ n }},{% endfor %}\n  'I' as i\n",
    "pipelines/eph.sql": "select id\nfrom {{ ref('stock') }} -- last\n",
    "pipelines/z.sql": "INSERT INTO [{{ sink('lake', 'İ', duplicates: 'accept') }}, "
    "{{ sink('lake', 'i', duplicates: 'accept') }}]\n"
    "select * from {{ ref('eph') }} join {{ ref('names') }} on true\n",
    "pipelines/configs/eph.yml": "pipeline: eph\nmaterialization: ephemeral\n",
    "pipelines/configs/z.yml": "pipeline: z\ntags: [b, a]\nchecks:\n  - not_null: [id]\n  - unique: [id, a]\n",
}


def put(root: Path, *, seed: int = 0, ends: str = "\n") -> None:
    """Write the files in some order, with some line ends."""
    names = sorted(RICH)
    random.Random(seed).shuffle(names)
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(RICH[name].replace("\n", ends).encode())


def made_of(root: Path) -> dict[str, str]:
    """The manifest and the compiled texts; flows too, which no file holds."""
    graph = compile_project(load_project(root, environ={}), environ={})
    texts = {n.name: compiled_text(n) for n in graph.nodes if isinstance(n, PipelineNode)}
    flows = json.dumps([[f.label, *f.nodes] for f in graph.flows])
    return {"manifest": manifest_text(graph), "flows": flows, "notices": str(graph.notices), **texts}


def test_neither_the_order_of_files_nor_their_line_ends_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "plain")
    expected = made_of(tmp_path / "plain")
    assert expected["manifest"].count('"id"') == 9 and "\r" not in "".join(expected.values())
    walk = os.walk
    for seed in range(1, 6):
        root = tmp_path / str(seed)
        put(root, seed=seed, ends="\r\n" if seed % 2 else "\n")
        shuffle = random.Random(seed).shuffle

        def shuffled(top: Any, *args: Any, shuffle: Any = shuffle, **kwargs: Any) -> Any:
            for folder, folders, files in walk(top, *args, **kwargs):
                shuffle(folders)
                shuffle(files)
                yield folder, folders, files

        monkeypatch.setattr(os, "walk", shuffled)
        assert made_of(root) == expected


def test_neither_locale_nor_hash_seed_nor_time_zone_nor_place_matter(tmp_path: Path) -> None:
    script = "import json, sys\nfrom pathlib import Path\nsys.path.insert(0, sys.argv[2])\n"
    script += "from test_random_projects import made_of\nprint(json.dumps(made_of(Path(sys.argv[1]))))\n"
    answers = []
    for seed, (locale, zone) in enumerate((("C", "UTC"), ("tr_TR.UTF-8", "Asia/Kolkata"), ("POSIX", "America/Lima"))):
        root = tmp_path / f"ä {seed}"
        put(root, seed=seed)
        environ = {**os.environ, "PYTHONHASHSEED": str(seed * 7 + 1), "LC_ALL": locale, "TZ": zone, "PYTHONUTF8": "0"}
        done = subprocess.run(
            [sys.executable, "-c", script, str(root), str(Path(__file__).parent)],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        answers.append(json.loads(done.stdout))
    put(tmp_path / "here")
    assert answers == [made_of(tmp_path / "here")] * 3
