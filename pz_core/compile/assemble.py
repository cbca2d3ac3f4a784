"""Pipelines put together: ephemerals inlined, with all that a consumer takes over from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pz_core.compile.binding import Key
from pz_core.compile.ephemeral import inline
from pz_core.compile.sqltext import second_statement, skip_blank
from pz_core.errors import Problems, Where
from pz_core.project.model import PipelineFile

if TYPE_CHECKING:
    from pz_core.compile.rendered import Rendered, WatermarkCall

_ISLAND = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}")


class Query(Struct, frozen=True):
    """A rendered pipeline and its own normalised query, without INSERT INTO."""

    rendered: Rendered
    sql: str

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return self.rendered.pipeline.name

    @property
    def ephemeral(self) -> bool:
        """Whether it has no node of its own."""
        return self.rendered.pipeline.sidecar.materialization == "ephemeral"


class Assembled(Struct, frozen=True):
    """A pipeline that is not ephemeral, with what it takes over from the ephemerals that it inlines.

    Args:
        sql: the query with ephemerals in front.
        sources: datasets, sorted.
        refs: pipelines with a node, sorted.
        watermarks: its own calls first.
    """

    query: Query
    sql: str
    sources: tuple[Key, ...]
    refs: tuple[str, ...]
    watermarks: tuple[WatermarkCall, ...]

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return self.query.name


def assemble(queries: Sequence[Query]) -> dict[str, Assembled]:
    """Every pipeline that is not ephemeral, by name, sorted; refs of nothing are passed over."""
    by_name = {q.name: q for q in queries}
    made: dict[str, Assembled] = {}
    for query in sorted(queries, key=lambda q: q.name):
        if query.ephemeral:
            continue
        targets = [by_name[r.name] for r in query.rendered.refs if r.name in by_name]
        bodies = {t.name: t for t in targets if t.ephemeral}
        parts = [query.rendered, *(bodies[n].rendered for n in sorted(bodies))]
        refs = {r.name for p in parts for r in p.refs if r.name in by_name and not by_name[r.name].ephemeral}
        made[query.name] = Assembled(
            query,
            inline(query.sql, {n: t.sql for n, t in bodies.items()}),
            tuple(sorted({(c.connection, c.entity) for p in parts for c in p.sources})),
            tuple(sorted(refs)),
            tuple(call for p in parts for call in p.watermarks),
        )
    return made


def refuse_other_statements(queries: Sequence[Query], problems: Problems) -> None:
    """PZ0401 for a pipeline that holds no query, or a second statement behind a semicolon."""
    for query in queries:
        pipeline = query.rendered.pipeline
        at = second_statement(query.sql)
        if at is not None:
            line = query.sql[query.sql.rfind("\n", 0, at) + 1 :].partition("\n")[0]
            problems.error(
                "PZ0401",
                f"pipeline '{query.name}' holds a second statement behind a semicolon",
                where=Where(pipeline.file, source_line(pipeline, line)),
                hint="a pipeline is one query: remove the semicolon and what follows, or make it a pipeline of its own",
            )
        elif skip_blank(query.sql, 0) == len(query.sql):
            problems.error(
                "PZ0401",
                f"pipeline '{query.name}' holds no query",
                where=Where(pipeline.file),
                hint="write a SELECT, or remove the file",
            )


def readers_of(pipelines: Mapping[str, Assembled]) -> dict[Key, tuple[str, ...]]:
    """Dataset -> sorted names of the pipelines that read it; sorted."""
    found: dict[Key, list[str]] = {}
    for name, pipeline in pipelines.items():
        for key in pipeline.sources:
            found.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in sorted(found.items())}


def source_line(pipeline: PipelineFile, compiled: str) -> int | None:
    """The 1-based line of a file that a line of compiled SQL came from, if exactly one can have made it.

    Args:
        pipeline: the file as written.
        compiled: the line; what template calls made of themselves may be anything.
    """
    wanted = compiled.strip()
    if not wanted:
        return None
    found: list[int] = []
    for number, line in enumerate(pipeline.text.split("\n"), 1):
        fixed = _ISLAND.split(line.strip())
        if len(fixed) == 1:
            fits = fixed[0] == wanted
        elif any(part.strip() for part in fixed):
            fits = re.fullmatch(".*".join(re.escape(part) for part in fixed), wanted) is not None
        else:
            fits = False
        if fits:
            found.append(number)
    return found[0] if len(found) == 1 else None
