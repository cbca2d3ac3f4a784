"""The packages that ``pz plugins new`` writes; their files are data of this package, with stand-ins for names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from msgspec import Struct

from pz_core.errors import PzError
from pz_core.plugins.offers import NAME, normalised

KINDS = ("connector", "check", "strategy", "state")
_SUFFIX = ".template"
#: Files that packaging tools would take for their own, under another name.
_RENAMED = {"gitignore": ".gitignore"}


class Scaffold(Struct, frozen=True):
    """A package to write.

    Args:
        kind: of the plugin.
        name: that projects write.
    """

    kind: str
    name: str

    @property
    def distribution(self) -> str:
        """``pz-connector-fixed-width``."""
        return f"pz-{self.kind}-{normalised(self.name)}"

    @property
    def module(self) -> str:
        """``pz_fixed_width``."""
        return f"pz_{self.name}"

    @property
    def class_name(self) -> str:
        """``FixedWidth``."""
        return "".join(part.capitalize() for part in self.name.split("_")) or "Plugin"

    def contents(self) -> Iterator[tuple[PurePosixPath, str]]:
        """Path and text of every file."""
        yield from self._walk(files(__package__) / "plugin_templates" / self.kind, PurePosixPath())

    def write(self, folder: Path) -> Path:
        """Write the package into a folder of its own.

        Args:
            folder: that it is made in.

        Returns:
            The package's folder.

        Raises:
            PzError: PZ0130 if something stands there already.
        """
        target = folder / self.distribution
        if target.exists() or target.is_symlink():
            raise PzError("PZ0130", f"{target} exists", hint="choose another name, or another folder with --into DIR")
        for path, text in self.contents():
            file = target.joinpath(*path.parts)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        return target

    def _walk(self, folder: Traversable, at: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
        for item in sorted(folder.iterdir(), key=lambda item: item.name):
            name = self._filled(item.name.removesuffix(_SUFFIX))
            path = at / _RENAMED.get(name, name)
            if item.is_dir():
                yield from self._walk(item, path)
            elif item.name.endswith(_SUFFIX):
                yield path, self._filled(item.read_text(encoding="utf-8"))

    def _filled(self, text: str) -> str:
        for stand_in, value in (
            ("__distribution__", self.distribution),
            ("__module__", self.module),
            ("__plugin__", self.name),
            ("__class__", self.class_name),
        ):
            text = text.replace(stand_in, value)
        return text


def scaffold(kind: str, name: str) -> Scaffold:
    """The package for a name.

    Raises:
        PzError: PZ0708 for a name that no plugin can have.
    """
    folded = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")
    if not NAME.fullmatch(name):
        near = f"write {folded}" if NAME.fullmatch(folded) else "write a lower-case word"
        raise PzError("PZ0708", f"'{name}' is no name for a plugin; a name is [a-z][a-z0-9_]*", hint=near)
    return Scaffold(kind, name)
