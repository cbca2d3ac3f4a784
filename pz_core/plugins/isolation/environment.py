"""The folder of an isolated package's environment, and what stands in it. Nothing here runs anything."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from pz_core.plugins.scan import Installed, installed

#: Top-level modules that the running pz lends to the child: itself, and what its contract and its plugin room import.
#: A package that brings one of the others has its own.
_LENT = (
    "pz_core", "msgspec", "pluggy", "packaging", "importlib_metadata", "zipp", "typing_extensions",
    "pyarrow", "duckdb", "_duckdb",
)  # fmt: skip
#: What a child gets of the environment. Everything else may be a secret of the project or of the user.
_HANDED_ON = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
        "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PZ_DEBUG",
        "OMP_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL", "MALLOC_ARENA_MAX",
    }
)  # fmt: skip
_HANDED_ON_HEADS = ("LC_", "XDG_")


class Environment(Struct, frozen=True):
    """Where a package's own environment is, whether it has been made or not.

    Args:
        package: normalised name of the distribution.
        folder: absolute path, ``.pz/envs/<package>`` of the project.
    """

    package: str
    folder: Path

    @classmethod
    def of(cls, project: Path, package: str) -> Environment:
        """The environment of a package of a project."""
        return cls(package, project / ".pz" / "envs" / package)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        inside = Path("Scripts", "python.exe") if sys.platform == "win32" else Path("bin", "python")
        return self.folder / inside

    @property
    def site(self) -> Path:
        """Where its packages are, for the Python that runs now."""
        if sys.platform == "win32":
            return self.folder / "Lib" / "site-packages"
        return self.folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    @property
    def made(self) -> bool:
        """Whether it is there, for this Python."""
        return self.site.is_dir() and self.python.exists()

    def distributions(self) -> Iterator[Installed]:
        """What is installed in it."""
        return installed([str(self.site)]) if self.made else iter(())

    def version(self, distribution: str) -> str | None:
        """The version of a distribution in it."""
        return next((found.version for found in self.distributions() if found.name == distribution), None)


def environments(project: Path, packages: Iterable[str]) -> dict[str, Environment]:
    """The environments of a project's isolated packages, by name."""
    return {package: Environment.of(project, package) for package in packages}


def lent_modules() -> dict[str, str]:
    """Folders of the modules that the child finds where the parent has them."""
    made: dict[str, str] = {}
    for name in _LENT:
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        places = list(spec.submodule_search_locations or ())
        place = places[0] if places else spec.origin
        if place is not None:
            made[name] = str(Path(place).parent)
    return made


def handed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a child."""
    made = {name: value for name, value in environ.items() if name in _HANDED_ON or name.startswith(_HANDED_ON_HEADS)}
    if sys.platform == "win32":
        made |= {name: os.environ[name] for name in ("SYSTEMROOT", "APPDATA", "LOCALAPPDATA") if name in environ}
    return made
