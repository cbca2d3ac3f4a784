"""Whatever stands in a file, only coded errors come out, and twice the same text."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pz_core.compile.scanner import Kind, scan
from pz_core.compile.template import Rendered, WatermarkCall, render, sentinel
from pz_core.compile.watermark import DatasetInfo, infer, substitute
from pz_core.errors import PzErrors, Where
from pz_core.plugins.registry import Registry
from pz_core.project.model import PipelineFile, Project

PROFILE = settings(
    max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
REGISTRY = Registry(None)
PROJECT = Project(Path("/nowhere"), "t", "0.1.0", vars={"x": [1, "a"], "m": {"k": 1}, "s": "{{ 1 }}"}, env=("E",))

WORDS = r"""
    {{ }} {% %} {# #} {{- -}} ' '' " "" $$ $a$ a$$b E' -- /* */ \ \' ; , ( ) [ ] { } : = + ~ ** | . .. 1 1.5 0x 'a'
    'b.c' source( sink( ref( watermark( var('x') var('m') var('s') env('E') if for in else endif endfor set endset elif
    loop.last x is defined none not and or join upper strategy: 'merge' keys: path= retry: run_id this select from é 日
"""
SHREDS = st.sampled_from([*WORDS.split(), "\n", "\x00", "\x7f", "\u2028"])
TEXT = st.lists(SHREDS | st.text(max_size=3), max_size=20).map(" ".join)
NAMES = st.text(alphabet="ab._'\"$ {}é", max_size=6)
VALUES = st.recursive(
    st.integers() | st.text(max_size=5) | st.booleans() | st.none() | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "keys", "mode"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def outcome(text: str) -> Rendered | list[str]:
    try:
        return render(PipelineFile("p", "pipelines/p.sql", text), PROJECT, REGISTRY, environ={"E": "e"})
    except PzErrors as errors:
        assert all(e.where.file == "pipelines/p.sql" and (e.where.line or 0) >= 1 for e in errors)
        shown = [e.render() for e in errors]
        assert not any("<class" in s or "<function" in s or "object at" in s for s in shown)
        return shown


@PROFILE
@given(TEXT)
def test_any_text_renders_or_is_refused_the_same_way_twice(text: str) -> None:
    assert outcome(text) == outcome(text)


@PROFILE
@given(TEXT)
def test_text_without_islands_is_handed_on_whole(text: str) -> None:
    pieces = scan(text, faults := [])
    if not faults and all(piece.kind in (Kind.SQL, Kind.COMMENT) for piece in pieces) and "{#" not in text:
        assert "".join(piece.text for piece in pieces) == text


def spelled(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {spelled(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(spelled, value)) + "]"
    if isinstance(value, str):
        return "'" + "".join(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in value) + "'"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return repr(value) if abs(value) < 1e300 else "1e300 * 1e300"  # type: ignore[arg-type,operator]


OPTIONS = ("strategy", "keys", "retry", "columns", "sync", "path", "on_delete", "mode", "schema", "input", "class")


@PROFILE
@given(st.sampled_from(["source", "sink"]), NAMES, NAMES, st.dictionaries(st.sampled_from(OPTIONS), VALUES, max_size=4))
def test_any_call_is_read_or_refused(name: str, connection: str, entity: str, options: dict[str, object]) -> None:
    given_options = "".join(f", {key}: {spelled(value)}" for key, value in options.items())
    outcome("{{ " + f"{name}({spelled(connection)}, {spelled(entity)}{given_options})" + " }}")


SQL_WORDS = """
    select from where and or not ( ) , ; > >= < <= = ts o.ts id 1 'a' $F $F,o $W $W as o join left on union all case
    when then end is null between in interval 2 hour ::timestamp coalesce( now() -- /* */ é '日'
    group by order limit exists
"""
SQL = st.lists(st.sampled_from([*SQL_WORDS.split(), "\n"]), max_size=25).map(" ".join)


@PROFILE
@given(SQL)
def test_any_sql_is_inferred_or_refused(text: str) -> None:
    mark = sentinel("s", "o")
    tail = random.Random(len(text)).choice(["", " select 1 from $F o where o.ts > $W", " and ts > $W"])
    for sql in (text, f"select 1 from $F o where o.ts > $W {text}", f"select {text}{tail}"):
        sql = sql.replace("$F", "staging.src_s__o").replace("$W", mark)
        call = WatermarkCall("s", "o", Where("p.sql", 1), mark)
        datasets = {"s.o": DatasetInfo("s", "o", "src_s__o")}
        made = infer(sql, pipeline="p", where=Where("p.sql"), calls=(call,), datasets=datasets)
        if made.problems.errors:
            assert made.sql == sql
        else:
            # Every sentinel is under a guard, once in its test and once in the comparison.
            assert made.sql.count(mark) == 2 * sql.count(mark)
            assert substitute(made.sql, {"s.o": None}, {"s.o": "bigint"}, full_refresh=True).count(
                "TRUE OR"
            ) == sql.count(mark)
