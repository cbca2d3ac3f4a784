"""Names of tables, the file that they are in, and the SELECT that reads one."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from msgspec import Struct

from pz_core.contract.connector import ConnectionConfig, ConnectorError, ReadSpec
from pz_core.contract.files import bounds_condition
from pz_core.contract.files.words import TextRules, declared_test
from pz_core.contract.names import two_part_name
from pz_core.contract.refusals import refusal
from pz_core.contract.secrets import Secret, reveal
from pz_core.errors import PzError
from pz_core.values import duckdb_type, quote_identifier, quote_literal

DEFAULT_SCHEMA = "main"


class TableName(Struct, frozen=True):
    """A table in its schema."""

    schema: str
    table: str

    @classmethod
    def of(cls, entity: str, subject: str) -> TableName:
        """``orders`` or ``mart.orders``.

        Raises:
            ConnectorError: PZ0353 for a name of more than two parts, or with an empty one.
        """
        return cls(*two_part_name(entity, subject, DEFAULT_SCHEMA, "database file"))


class DatabaseFile(Struct, frozen=True):
    """The database file of a connection.

    Args:
        connection: its name.
        project: absolute path of the project.
        path: absolute path of the file, symbolic links resolved: two connections to one file are told by it.
    """

    connection: str
    project: Path
    path: Path

    @classmethod
    def of(cls, config: ConnectionConfig) -> DatabaseFile:
        """From a connection."""
        given = config.options.get("path", "")
        text = reveal(given) if isinstance(given, Secret) else str(given)
        if "\0" in text:
            raise PzError(
                "PZ0301",
                f"connection '{config.name}': option 'path' holds a NUL byte",
                hint="take the escape \\0 out of the text",
            )
        project = Path(os.path.realpath(config.base_dir))
        return cls(config.name, project, Path(os.path.realpath(project / text)))

    @property
    def alias(self) -> str:
        """The name that it has when it is attached to the engine's DuckDB: one a file, which can be attached once."""
        stem = re.sub(r"[^A-Za-z0-9_]", "_", self.path.stem)[:40]
        return f"pz_{stem}_{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:8]}"

    @property
    def shown(self) -> str:
        """The path for messages, relative to the project where it lies inside."""
        inside = self.path.is_relative_to(self.project)
        return self.path.relative_to(self.project).as_posix() if inside else str(self.path)

    def attach(self, *, read_only: bool) -> str:
        """The statement that attaches it to the engine's DuckDB."""
        mode = " (READ_ONLY)" if read_only else ""
        return f"ATTACH IF NOT EXISTS {quote_literal(str(self.path))} AS {quote_identifier(self.alias)}{mode}"

    def fault(self) -> PzError | None:
        """PZ0301 for a path that is no place for data."""
        if self.path == self.project or self.path.is_relative_to(self.project / ".pz"):
            return PzError(
                "PZ0301",
                f"connection '{self.connection}': option 'path' is {self.shown}, which is no place for a database",
                hint="choose a file outside .pz/, which pz clean empties, such as warehouse.duckdb",
            )
        return None

    def missing(self, subject: str) -> ConnectorError:
        """PZ0353 for a read of a file that is not there."""
        return ConnectorError(
            f"{subject}: database file {self.shown} does not exist",
            code="PZ0353",
            hint="run the pipeline that writes it first, or correct path: of the connection",
        )


def select(spec: ReadSpec, relation: str) -> str:
    """The SELECT of a read: contract, pruned columns, filter and bounds.

    Args:
        spec: the read.
        relation: the table, quoted.
    """
    source = relation
    if spec.columns is not None:
        fields = ", ".join(_contract_field(name, word) for name, word in spec.columns.items())
        source = f"(SELECT {fields} FROM {relation}) AS pz_rows"
    chosen = "*" if spec.hints.columns is None else ", ".join(quote_identifier(name) for name in spec.hints.columns)
    conditions = [f"({part})" for part in (spec.hints.predicate, bounds_condition(spec.bounds)) if part]
    tail = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {chosen} FROM {source}{tail}"


def _contract_field(name: str, word: str) -> str:
    """A column in its declared type; a value that would change stops the read."""
    column, kind = quote_identifier(name), duckdb_type(word)
    value = f"TRY_CAST({column} AS {kind})"
    from_text = declared_test(word, f"CAST({column} AS VARCHAR)", TextRules())
    whole = f"(typeof({column}) NOT LIKE '%INT%' OR TRY_CAST({value} AS HUGEINT) = TRY_CAST({column} AS HUGEINT))"
    same_text = f"CAST({value} AS VARCHAR) = CAST({column} AS VARCHAR)"
    from_value = f"coalesce({same_text} OR ({value} = {column} AND {whole}), false)"
    fits = (
        f"CASE WHEN {column} IS NULL OR typeof({column}) = {quote_literal(kind)} THEN true "
        f"WHEN typeof({column}) = 'VARCHAR' THEN {from_text} ELSE {from_value} END"
    )
    stop = refusal(
        "PZ0812",
        quote_literal(f"column '{name}' holds a value that {word} cannot hold exactly, a ") + f" || typeof({column})",
        quote_literal(f"declare '{name}' with the type that the table has, and convert it in the pipeline"),
    )
    if word == "varchar":
        return f"CAST({column} AS VARCHAR) AS {column}"
    return f"CASE WHEN {fits} THEN {value} ELSE {stop} END AS {column}"
