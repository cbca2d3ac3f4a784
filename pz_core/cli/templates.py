"""The templates that ``pz init`` copies; their files are data of this package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from msgspec import Struct

#: Stands in template files where the project's name goes.
PLACEHOLDER = "__project_name__"
#: Files that packaging tools would take for their own, under another name.
_RENAMED = {"gitignore": ".gitignore"}


class Template(Struct, frozen=True):
    """A template.

    Args:
        id: what ``--template`` takes.
        summary: one line.
        runs: what it needs to run.
        next_steps: commands to type after scaffolding.
    """

    id: str
    summary: str
    runs: str
    next_steps: tuple[str, ...]

    def contents(self, project_name: str) -> Iterator[tuple[PurePosixPath, bytes]]:
        """Path and content of every file, with the project's name in place."""
        yield from _walk(files(__package__) / "templates" / self.id, PurePosixPath(), project_name)


def _walk(folder: Traversable, at: PurePosixPath, project_name: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    for item in sorted(folder.iterdir(), key=lambda i: i.name):
        if item.name == "__pycache__":
            continue
        path = at / _RENAMED.get(item.name, item.name)
        if item.is_dir():
            yield from _walk(item, path, project_name)
        else:
            text = item.read_text(encoding="utf-8").replace(PLACEHOLDER, project_name)
            yield path, text.replace("\r\n", "\n").encode("utf-8")


DEFAULT = "minimal"

TEMPLATES: dict[str, Template] = {
    template.id: template
    for template in (
        Template(
            "minimal",
            "An empty project with every file explained.",
            "nothing to run yet",
            ("pz compile",),
        ),
        Template(
            "sample",
            "Orders, customers and products: CSV files in, parquet and CSV out, with checks.",
            "runs offline",
            ("pz plan", "pz run --all"),
        ),
        Template(
            "incremental",
            "New orders only, appended to a parquet log, with a watermark in the SQL.",
            "runs offline",
            ("pz plan", "pz run", "pz run"),
        ),
    )
}
