"""What earlier compiles made of pipelines, kept in ``.pz/target`` so that the next one renders only what changed.

A memory and no artifact: deleting it costs time and nothing else. Everything that a result depends on is compared
before it is used again; a file that is torn, foreign, or of other versions counts as none. What came from the
environment or from ``--vars`` is never written here: pipelines that show it are rendered anew each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pz_core import __version__
from pz_core.compile.keeping import (
    NotKept,
    inference_as_data,
    inference_of,
    rendered_as_data,
    rendered_of,
)
from pz_core.values.atomic import write_whole

if TYPE_CHECKING:
    from pz_core.compile.inferred import DatasetInfo, Inferred
    from pz_core.compile.rendered import Rendered, WatermarkCall
    from pz_core.plugins import Registry
    from pz_core.project import Loaded
    from pz_core.project.model import PipelineFile, Project

FILE = "compile.cache"
#: First word of the file. The number goes up with every change of the form.
_MARK = b"pz-compile-cache-1"
#: A file above this is not ours, or not worth reading.
_MAX_BYTES = 256 * 1024 * 1024
#: Where the code stands whose results are kept; an edit of it makes them void, whatever the version says.
_CODE = ("compile", "contract", "plugins", "project", "values")

Entries = dict[str, dict[str, Any]]


class CompileCache:
    """The results of one project. Reading and looking up never fail; :meth:`save` is the one step that writes.

    Args:
        project: the project as it is now.
        stamp: versions of all that has a part in the results.
    """

    def __init__(self, project: Project, stamp: str) -> None:
        self._project = project
        self._stamp = stamp
        self._path = project.dot_pz / "target" / FILE
        self._values: dict[str, str] = {}
        self._old: tuple[Entries, Entries] = self._read()
        self._new: tuple[Entries, Entries] = ({}, {})
        self._changed = False

    @classmethod
    def of(cls, loaded: Loaded) -> CompileCache:
        """The cache of a loaded project, empty where there is none that can be used."""
        return cls(loaded.project, stamp_of(loaded.registry))

    # --- pipelines ---------------------------------------------------------------------------------------------------

    def rendered(self, pipeline: PipelineFile, ephemeral: frozenset[str], *, neutral: bool) -> Rendered | None:
        """What an earlier render made of a pipeline, if all that it read is as it was.

        Args:
            pipeline: the file as it is now.
            ephemeral: names of ephemeral pipelines.
            neutral: whether ``run_id`` and ``run_started_at`` are those of no run.
        """
        data = self._old[0].get(pipeline.name)
        key = _pipeline_key(pipeline)
        try:
            if data is None or data["key"] != key:
                return None
            # Kept even where it does not serve this time: the next compile may be without --vars, or no run.
            self._new[0][pipeline.name] = data
            if any(self._value(name) != digest for name, digest in data["variables"].items()):
                return None
            made = rendered_of(data["made"], pipeline, ephemeral)
            return None if made.uses_run_constants and not neutral else made
        except (NotKept, KeyError, TypeError, ValueError, AttributeError, IndexError):
            return None

    def keep(self, rendered: Rendered, ephemeral: frozenset[str], *, neutral: bool) -> None:
        """Remember a render, unless it shows something that comes from outside the project's files or from a run."""
        if not self.may_keep(rendered, neutral=neutral):
            return
        try:
            data = {
                "key": _pipeline_key(rendered.pipeline),
                "variables": {name: self._value(name) for name in rendered.variables},
                "made": rendered_as_data(rendered, ephemeral),
            }
        except (NotKept, ValueError, RecursionError):
            return
        self._new[0][rendered.pipeline.name] = data
        self._changed = True

    def may_keep(self, rendered: Rendered, *, neutral: bool) -> bool:
        """Whether nothing that a render shows is secret to a file, or another one in each run."""
        return (
            not rendered.reads_environment
            and self._project.outside_vars.isdisjoint(rendered.variables)
            and (neutral or not rendered.uses_run_constants)
        )

    def _value(self, name: str) -> str:
        """Digest of a variable's value; the order of a mapping counts, for a template may loop over it."""
        known = self._values.get(name)
        if known is None:
            variables = self._project.vars
            known = _digest(json.dumps(variables[name])) if name in variables else ""
            self._values[name] = known
        return known

    # --- watermarks --------------------------------------------------------------------------------------------------

    @staticmethod
    def inference_key(
        sql: str, pipeline: PipelineFile, calls: Sequence[WatermarkCall], datasets: Mapping[str, DatasetInfo]
    ) -> str:
        """Digest of all that an inference reads."""
        spelled = [[c.connection, c.entity, c.where.file, c.where.line] for c in calls]
        known = [
            [
                name,
                info.relation,
                None if info.columns is None else list(info.columns.items()),
                None if info.sync is None else repr(info.sync),
            ]
            for name, info in datasets.items()
        ]
        return _digest(json.dumps([sql, pipeline.name, pipeline.file, spelled, known]))

    def inferred(self, pipeline: str, key: str) -> Inferred | None:
        """What the ``watermark()`` calls of a pipeline meant when all about them was the same."""
        data = self._old[1].get(pipeline)
        try:
            if data is None or data["key"] != key:
                return None
            made = inference_of(data["made"])
        except (NotKept, KeyError, TypeError, ValueError, AttributeError, IndexError):
            return None
        self._new[1][pipeline] = data
        return made

    def keep_inferred(self, pipeline: str, key: str, inferred: Inferred) -> None:
        """Remember an inference without faults; the caller has asked :meth:`may_keep` of all that is in it."""
        try:
            made = inference_as_data(inferred)
        except (NotKept, RecursionError):
            return
        self._new[1][pipeline] = {"key": key, "made": made}
        self._changed = True

    # --- the file ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write what this compile used and made, if that is news. A place that cannot be written is no fault."""
        for name, data in self._old[1].items():
            if name in self._new[0]:
                self._new[1].setdefault(name, data)  # of a run, which infers anew what shows its id
        if not self._changed and all(new.keys() == old.keys() for new, old in zip(self._new, self._old, strict=True)):
            return
        try:
            body = json.dumps(self._new, separators=(",", ":"), allow_nan=False)
            head = f"{_MARK.decode()} {self._stamp} {_digest(body)}\n"
            write_whole(self._path, head + body, mode=0o600)
        except (OSError, ValueError, RecursionError):
            return

    def _read(self) -> tuple[Entries, Entries]:
        nothing: tuple[Entries, Entries] = ({}, {})
        try:
            if self._path.stat().st_size > _MAX_BYTES:
                return nothing
            content = self._path.read_bytes()
        except OSError:
            return nothing
        head, _, body = content.partition(b"\n")
        if head.split(b" ") != [_MARK, self._stamp.encode(), hashlib.sha256(body).hexdigest().encode()]:
            return nothing
        try:
            pipelines, inferences = json.loads(body)
        except (ValueError, TypeError, RecursionError):
            return nothing
        if not isinstance(pipelines, dict) or not isinstance(inferences, dict):
            return nothing
        return pipelines, inferences


def stamp_of(registry: Registry) -> str:
    """Digest of the versions of all that has a part in what is kept: pz, Python, libraries, strategies, our code."""
    strategies = [
        [o.name, o.distribution, o.version, o.module] for o in registry.offers if o.kind == "strategy" and o.usable
    ]
    libraries = [registry.version(name) for name in ("jinja2", "duckdb")]
    return _digest(json.dumps([__version__, sys.version, libraries, strategies, _code()]))


def _code() -> list[tuple[str, int, int]]:
    """Names, sizes and times of our own modules: a checkout is edited without a new version."""
    here = Path(__file__).resolve().parent.parent
    found: list[tuple[str, int, int]] = []
    for folder in _CODE:
        try:
            with os.scandir(here / folder) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        about = entry.stat()
                        found.append((f"{folder}/{entry.name}", about.st_size, about.st_mtime_ns))
        except OSError:
            continue  # in an archive; there the version tells enough
    return sorted(found)


def _pipeline_key(pipeline: PipelineFile) -> str:
    return _digest(f"{pipeline.name}\0{pipeline.file}\0{pipeline.text}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
