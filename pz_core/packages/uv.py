"""Calls uv, the resolver and installer. The one place that knows how it is found and how it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import field

from pz_core.errors import PzError, one_line
from pz_core.packages.index import no_index, uv_environment
from pz_core.values.discreet import Discreet

_ADDRESS = re.compile(r"\w+://\S+")
_HOST = re.compile(r"https?://(?:[^@/\s]*@)?([^/\s)`]+)")
_NETWORK = re.compile(
    r"Request failed|Failed to fetch|error sending request|HTTP status|Could not connect|Missing credentials|"
    r"Network connectivity is disabled",
)
_DENIED = re.compile(r"\b(401|403)\b|[Uu]nauthorized|[Ff]orbidden|Missing credentials")
_DISK = re.compile(r"No space left|Permission denied|Read-only file system|os error (?:13|28|30)\b")
_HASHES = re.compile(r"Hash mismatch for `([^`\s]+)`")
_UNSOLVED = "No solution found"


class NoSolutionError(Exception):
    """uv found no set of versions; the text is uv's reasoning on one line, without addresses."""

    def __init__(self, reasons: str, *, offline: bool) -> None:
        super().__init__(reasons)
        self.reasons = reasons
        self.offline = offline


class Uv(Discreet, frozen=True):
    """uv with the index that pip and uv are set up with.

    Args:
        folder: to run in; its settings for uv (``uv.toml``) count.
        find_links: absolute folders with files, besides what pip and uv are set up with.
        offline: ask no network; what is cached or in a folder is all there is.
    """

    kept: ClassVar[frozenset[str]] = frozenset({"environ"})

    folder: Path
    find_links: tuple[Path, ...] = ()
    offline: bool = False
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def __call__(self, *arguments: str | Path, asks_index: bool = True) -> str:
        """Run ``uv ARGUMENTS``.

        Args:
            arguments: of uv.
            asks_index: whether the subcommand takes options that choose an index.

        Returns:
            What it wrote to stdout.

        Raises:
            NoSolutionError: if no set of versions fits.
            PzError: PZ0320 (no uv, or anything else that it says), PZ0327 (other bytes), PZ0328 (index), PZ0329 (disk).
        """
        command = [find_uv(), *(str(argument) for argument in arguments)]
        if asks_index:
            command += [part for folder in self.find_links for part in ("--find-links", str(folder))]
            command += ["--offline"] * self.offline + ["--no-index"] * no_index(self.environ)
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=uv_environment(self.environ),
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise _lacking(error) from error
        if done.returncode:
            raise _refusal(done.stderr, offline=self.offline)
        return done.stdout


def find_uv() -> str:
    """The path of uv's executable.

    Raises:
        PzError: PZ0320 if uv is not installed.
    """
    try:
        import uv

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        raise _lacking(error) from error


def python() -> Sequence[str]:
    """The option that names the interpreter that runs pz."""
    return ("--python", sys.executable)


def _lacking(error: BaseException) -> PzError:
    return PzError(
        "PZ0320",
        "uv, which resolves and installs packages, is not installed beside pz",
        hint="install it into the same environment: python -m pip install uv",
        cause=error,
    )


def _refusal(text: str, *, offline: bool) -> Exception:
    if _NETWORK.search(text) and _UNSOLVED not in text:
        host = _HOST.search(text)
        named = f"the package index at {host[1]}" if host else "the package index"
        if _DENIED.search(text):
            return PzError(
                "PZ0328",
                f"{named} does not accept the credentials",
                hint="check user and password in the settings of pip or uv",
            )
        return PzError(
            "PZ0328",
            f"{named} does not answer" if not offline else f"{named} is needed, and --offline forbids to ask it",
            hint="check network, proxy and the index in the settings of pip and uv; --find-links DIR takes a folder",
        )
    plain = _plain(text)
    mismatch = _HASHES.search(text)
    if mismatch is not None:
        return PzError(
            "PZ0327",
            f"{mismatch[1]} was published again: the index gives a file that is none of those in the lock",
            hint="find out why before you trust it; pz deps lock --upgrade takes another version",
        )
    if _UNSOLVED in text:
        return NoSolutionError(plain, offline=offline)
    if _DISK.search(text):
        return PzError(
            "PZ0329",
            f"packages cannot be written: {plain}",
            hint="free space, or use an environment and a cache that you own",
        )
    return PzError(
        "PZ0320",
        f"packages cannot be resolved: {plain or 'uv gave no reason'}",
        hint="correct what the message names; the versions stand in project.yml under connectors: and plugins:",
    )


def _plain(text: str) -> str:
    """The words of uv on one line, without its marks and without addresses, which may hold credentials."""
    lines = [re.sub(r"^\W*(?:error:|cause:)?\s*", "", line) for line in text.splitlines()]
    return _ADDRESS.sub("<address>", one_line("\n".join(line for line in lines if not line.startswith("Resolved"))))
