"""Reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from pz_fixed_width.text import Layout, arrow_type

from pz_core.contract import ConnectorError, NativeScan, Partition, ReadSpec
from pz_core.values import Column, Value, duckdb_type

if TYPE_CHECKING:
    import pyarrow as pa


class Source:
    """An open folder."""

    def __init__(self, layout: Callable[[str, Mapping[str, Value]], Layout]) -> None:
        self._layout = layout

    def natural_shape(self, spec: ReadSpec) -> str:
        """All there is."""
        return "full"

    def schema(self, spec: ReadSpec) -> tuple[Column, ...]:
        """The contract, or the names of the first line as texts."""
        with self._open(spec) as (layout, lines):
            names = self._names(layout, lines)
        words = self._words(spec, layout, names)
        return tuple(Column(name, duckdb_type(word)) for name, word in words.items())

    def native_scan(self, spec: ReadSpec) -> NativeScan | None:
        """DuckDB does not read this by itself."""
        return None

    def partitions(self, spec: ReadSpec) -> Sequence[Partition]:
        """One."""
        return (Partition(),)

    def read(self, spec: ReadSpec, partition: Partition, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of rows."""
        with self._open(spec) as (layout, lines):
            names = self._names(layout, lines)
            words = self._words(spec, layout, names)
            rows: list[list[str | None]] = []
            first = 1
            for number, line in enumerate(lines, start=1):
                rows.append(layout.fields(line, len(names), number))
                if len(rows) == batch_rows:
                    yield _batch(layout, names, words, rows, first)
                    rows, first = [], number + 1
            if rows or first == 1:
                yield _batch(layout, names, words, rows, first)

    def close(self) -> None:
        """Nothing is held between calls."""

    @contextmanager
    def _open(self, spec: ReadSpec) -> Iterator[tuple[Layout, TextIO]]:
        layout = self._layout(spec.entity, spec.options)
        try:
            with layout.file.open(encoding="utf-8", newline="\n") as lines:
                yield layout, lines
        except FileNotFoundError:
            raise ConnectorError(
                f"{layout.subject} is not there", code="PZ0353", hint="write it first, or correct the name"
            ) from None
        except UnicodeDecodeError as error:
            raise ConnectorError(f"{layout.subject} is not UTF-8", code="PZ0353", hint="convert the file") from error
        except OSError as error:
            raise ConnectorError(
                f"{layout.subject} cannot be read: {error.strerror}", hint="correct folder:", cause=error
            ) from error

    def _names(self, layout: Layout, lines: TextIO) -> list[str]:
        return [name or "" for name in layout.fields(lines.readline(), None, 0)]

    def _words(self, spec: ReadSpec, layout: Layout, names: list[str]) -> dict[str, str]:
        words = dict(spec.columns) if spec.columns is not None else dict.fromkeys(names, "varchar")
        missing = [name for name in words if name not in names]
        if missing:
            raise ConnectorError(
                f"{layout.subject}: there is no column '{missing[0]}'",
                code="PZ0353",
                hint=f"the columns are {', '.join(names)}",
            )
        return words


def _batch(
    layout: Layout, names: list[str], words: Mapping[str, str], rows: list[list[str | None]], first: int
) -> pa.RecordBatch:
    import pyarrow as pa

    made = []
    for name, word in words.items():
        at = names.index(name)
        texts = pa.array([row[at] for row in rows], pa.string())
        try:
            made.append(texts.cast(arrow_type(word)))
        except pa.ArrowInvalid:
            raise _unfit(layout, name, word, texts, first) from None
    return pa.RecordBatch.from_arrays(made, names=list(words))


def _unfit(layout: Layout, name: str, word: str, texts: pa.Array, first: int) -> ConnectorError:
    import pyarrow as pa

    row = first
    for number, text in enumerate(texts):
        try:
            pa.array([text.as_py()], pa.string()).cast(arrow_type(word))
        except pa.ArrowInvalid:
            row = first + number
            break
    return ConnectorError(
        f"{layout.subject}: column '{name}' is no {word} in row {row}",
        code="PZ0812",
        hint="declare it as varchar, or mend the file",
    )
