"""``pipelines/``: the SQL files, and where their sidecars are."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from pz_core.errors import Problems, Where
from pz_core.project.model import PipelineFile
from pz_core.project.names import is_name, legal_name
from pz_core.project.reading import read_file

FOLDER = "pipelines"
CONFIGS = "configs"


class FoundFiles(Struct, frozen=True):
    """What stands below ``pipelines/``: paths relative to the project, with forward slashes, sorted."""

    sql: tuple[str, ...] = ()
    sidecars: tuple[str, ...] = ()


def find_files(root: Path, problems: Problems) -> FoundFiles:
    """Look for SQL files at any depth (except below a folder ``configs``) and for sidecars.

    Hidden files and folders are left alone, as editors and version control put theirs there. PZ0135 warns of ``.yaml``
    files, a note tells of ``.yml`` files where none is read.
    """
    sql: list[str] = []
    sidecars: list[str] = []
    seen: set[str] = set()

    def unreadable(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return  # there is no folder, or it went away meanwhile
        folder = Path(error.filename).relative_to(root).as_posix() if error.filename else FOLDER
        what = error.strerror or type(error).__name__
        problems.error(
            "PZ0101",
            f"the folder {folder} cannot be read: {what}",
            where=Where(folder),
            hint="make it a folder that this user can read, or move it out of the project",
        )

    for folder, folders, files in os.walk(root / FOLDER, followlinks=True, onerror=unreadable):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        relative = Path(folder).relative_to(root).as_posix()
        parts = relative.split("/")
        in_configs = CONFIGS in parts[1:]
        top = relative == f"{FOLDER}/{CONFIGS}"
        for name in files:
            if name.startswith("."):
                continue
            stem, dot, ending = name.rpartition(".")
            file = f"{relative}/{name}"
            ending = ending.lower() if dot and stem else ""
            if ending == "sql" and not in_configs:
                sql.append(file)
            elif ending == "yml":
                if top:
                    sidecars.append(file)
                else:
                    problems.note(
                        f"{file} is not read: sidecars stand directly in {FOLDER}/{CONFIGS}/",
                        hint=f"move it to {FOLDER}/{CONFIGS}/{name} if it is a sidecar",
                    )
            elif ending == "yaml" and top:
                warn_yaml(file, problems)
    return FoundFiles(tuple(sorted(sql)), tuple(sorted(sidecars)))


def warn_yaml(file: str, problems: Problems) -> None:
    """PZ0135: a ``.yaml`` file where only ``.yml`` is read."""
    problems.warn(
        "PZ0135",
        f"{file} is not read: only .yml files are",
        where=Where(file),
        hint=f"rename it to {file[: -len('.yaml')]}.yml",
    )


def load_pipelines(root: Path, files: tuple[str, ...], problems: Problems) -> list[PipelineFile]:
    """Read the SQL files; PZ0110 for stems that occur twice whatever their case, PZ0136 for names that cannot be.

    Returns:
        The pipelines in the order of their files, one for each name.
    """
    made: list[PipelineFile] = []
    by_name: dict[str, list[str]] = {}
    for file in files:
        name = file.rpartition("/")[2].rpartition(".")[0]
        if not is_name(name):
            problems.error(
                "PZ0136",
                f"'{name}' cannot name a pipeline",
                where=Where(file),
                hint=f"use letters, digits and underscores, no digit first: rename the file to {legal_name(name)}.sql",
            )
        same = by_name.setdefault(name.casefold(), [])
        same.append(file)
        text = _read(root, file, problems)
        if text is not None and len(same) == 1:
            made.append(PipelineFile(name, file, text))
    for same in by_name.values():
        if len(same) > 1:
            problems.error(
                "PZ0110",
                f"the files {' and '.join(same)} give pipelines of one name",
                where=Where(same[0]),
                hint="the name of a file names its pipeline, folders and case do not count; rename all but one",
            )
    return made


def _read(root: Path, file: str, problems: Problems) -> str | None:
    try:
        data = read_file(root / file)
    except OSError as error:
        what = error.strerror or type(error).__name__
        problems.error("PZ0101", f"{file} cannot be read: {what}", where=Where(file), hint="make the file readable")
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.error(
            "PZ0104", f"{file} is not UTF-8 text", where=Where(file, line), hint="save the file with the encoding UTF-8"
        )
        return None
    nul = text.find("\0")
    if nul >= 0:  # SQL ends there for DuckDB: what stands behind it would be lost without a word
        where = Where(file, text.count("\n", 0, nul) + 1)
        problems.error("PZ0104", f"{file} holds a NUL character", where=where, hint="remove it from the file")
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")
