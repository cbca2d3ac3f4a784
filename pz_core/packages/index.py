"""Which index uv asks: its own settings, and pip's, which it does not read by itself."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_SECTIONS = ("global", "install")


def pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Pip's settings by their long names (``index-url``), later places over earlier ones, as pip ranks them.

    Args:
        environ: environment variables; ``PIP_*`` come last.
    """
    made: dict[str, str] = {}
    for path in _files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeError, OSError):
            continue  # pip itself tells of a broken file
        for section in _SECTIONS:
            if parser.has_section(section):
                made.update({key.replace("_", "-"): value for key, value in parser.items(section)})
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            made[name[4:].lower().replace("_", "-")] = value
    return made


def uv_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: as it is, with pip's settings added where uv has none of its own.

    Addresses go through the environment and not through arguments, for they may hold credentials.
    """
    pip = pip_settings(environ)
    made = {key: value for key, value in environ.items() if key not in ("UV_OUTPUT_FILE", "VIRTUAL_ENV")}
    made.update(NO_COLOR="1", UV_NO_PROGRESS="1")

    def hand_on(setting: str, variable: str, separator: str, *others: str) -> bool:
        values = pip.get(setting, "").split()
        if not values or any(environ.get(name) for name in (variable, *others)):
            return False
        made[variable] = separator.join(values)
        return True

    hand_on("index-url", "UV_DEFAULT_INDEX", " ", "UV_INDEX_URL")
    if hand_on("extra-index-url", "UV_INDEX", " ", "UV_EXTRA_INDEX_URL") and not environ.get("UV_INDEX_STRATEGY"):
        # pip looks at all indexes alike; uv would take the first that knows the name.
        made["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    hand_on("find-links", "UV_FIND_LINKS", ",")
    hand_on("trusted-host", "UV_INSECURE_HOST", " ")
    if pip.get("cert") and not environ.get("SSL_CERT_FILE"):
        made["SSL_CERT_FILE"] = pip["cert"]
    return made


def no_index(environ: Mapping[str, str]) -> bool:
    """Whether pip is told to ask no index."""
    return pip_settings(environ).get("no-index", "").lower() in ("1", "true", "yes", "on", "y", "t")


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    own = environ.get("PIP_CONFIG_FILE")
    if own == os.devnull:
        return
    home = Path(environ.get("HOME") or Path.home())
    if sys.platform == "win32":
        yield Path(environ.get("PROGRAMDATA", "C:\\ProgramData")) / "pip" / "pip.ini"
        yield home / "pip" / "pip.ini"
        yield Path(environ.get("APPDATA", home)) / "pip" / "pip.ini"
        yield Path(sys.prefix) / "pip.ini"
    else:
        for folder in reversed(environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
            yield Path(folder) / "pip" / "pip.conf"
        yield Path("/etc/pip.conf")
        yield home / ".pip" / "pip.conf"
        if sys.platform == "darwin":
            yield home / "Library" / "Application Support" / "pip" / "pip.conf"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
        yield Path(sys.prefix) / "pip.conf"
    if own:
        yield Path(own)
