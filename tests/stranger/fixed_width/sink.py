"""Writing: beside the target first, then in its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from pz_fixed_width.text import ARROW, Layout

from pz_core.contract import ConnectorError, Receipt, WriteSpec
from pz_core.values import Column, Value, duckdb_type

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES = {duckdb_type(word) for word in ARROW}


class Sink:
    """An open folder."""

    def __init__(self, layout: Callable[[str, Mapping[str, Value]], Layout]) -> None:
        self._layout = layout

    def native_write(self, spec: WriteSpec) -> None:
        """DuckDB does not write this by itself."""
        return None

    def begin(self, spec: WriteSpec, columns: tuple[Column, ...]) -> Session:
        """Begin a write."""
        layout = self._layout(spec.entity, spec.options)
        for column in columns:
            if column.type not in _TYPES:
                raise ConnectorError(
                    f"{layout.subject}: column '{column.name}' is {column.type}, which has no exact text here",
                    code="PZ0812",
                    hint="cast it to varchar in the pipeline",
                )
        return Session(layout, [column.name for column in columns], keep=spec.load_mode == "add")

    def abort_semantics(self) -> str:
        """An abort takes everything back."""
        return "discards_all"

    def close(self) -> None:
        """Nothing is held between calls."""


class Session:
    """One write."""

    def __init__(self, layout: Layout, names: list[str], *, keep: bool) -> None:
        self._layout = layout
        self._names = names
        self._beside = layout.file.with_name(f".{os.urandom(8).hex()}.tmp")
        self._rows = self._batches = 0
        self._file: TextIO | None = None
        self._ended = False
        header = layout.line(list(names), names, 0)
        try:
            layout.file.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._beside.open("w", encoding="utf-8", newline="\n")
            if not (keep and layout.file.exists()):
                self._file.write(header)
                return
            with layout.file.open(encoding="utf-8", newline="\n") as old:
                if old.readline() != header:
                    raise ConnectorError(
                        f"{layout.subject}: the columns of the batch, or the width, are not those that are there",
                        code="PZ0804",
                        hint="change the pipeline, or load with strategy: 'replace'",
                    )
                self._file.write(header)
                self._file.writelines(old)
        except OSError as error:
            self.abort()
            raise ConnectorError(
                f"{layout.subject} cannot be written: {error.strerror}", hint="correct folder:"
            ) from error
        except BaseException:
            self.abort()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        """Write one batch aside."""
        import pyarrow as pa

        file = self._open()
        columns = []
        for name, column in zip(self._names, batch.columns, strict=True):
            texts = column.cast(pa.string())
            try:
                same = texts.cast(column.type).equals(column)
            except pa.ArrowInvalid:
                same = False
            if not same:
                raise ConnectorError(
                    f"{self._layout.subject}: column '{name}' has a value without an exact text, "
                    f"in a row after row {self._rows}",
                    code="PZ0812",
                    hint="cast the column to varchar in the pipeline",
                )
            columns.append(texts.to_pylist())
        for row in zip(*columns, strict=True):
            self._rows += 1
            file.write(self._layout.line(list(row), self._names, self._rows))
        self._batches += 1

    def commit(self) -> Receipt:
        """Put what was written in the place of what was there, at once."""
        file = self._open()
        self._ended = True
        file.close()
        self._beside.replace(self._layout.file)
        return Receipt(self._rows, self._batches)

    def abort(self) -> None:
        """Remove what was written aside."""
        self._ended = True
        if self._file is not None:
            self._file.close()
        self._beside.unlink(missing_ok=True)

    def _open(self) -> TextIO:
        if self._ended or self._file is None:
            raise ConnectorError(
                f"{self._layout.subject}: the write has ended", hint="a session ends with commit or abort"
            )
        return self._file
