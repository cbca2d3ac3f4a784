"""Arrow on the way in and out: how many rows a batch has, whether batches agree, booleans that everybody can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from pz_core.contract.connector import ConnectorError
from pz_core.values import Column

#: DuckDB stores rows in groups of this size; larger batches bring nothing.
MAX_BATCH_ROWS = 122_880
#: What a value is taken to need in a batch where nothing better is known.
_VALUE_BYTES = 24
_ROW_BYTES = 256

_ENUM = re.compile(r"ENUM\((?:'(?:[^']|'')*'(?:, )?)+\)")


def batch_rows(batch_bytes: int, columns: int | None = None) -> int:
    """Rows of a batch of about ``batch_bytes`` bytes, for a table of so many columns (``None``: not known)."""
    width = max(_ROW_BYTES, (columns or 0) * _VALUE_BYTES)
    return max(1, min(MAX_BATCH_ROWS, batch_bytes // width))


def refuse_other_shape(first: pa.Schema, other: pa.Schema, subject: str) -> None:
    """Compare a batch with the first one, position by position; names and nullability do not matter.

    Raises:
        ConnectorError: PZ0501 naming the position, the column and both types.
    """
    if other.equals(first):
        return
    if len(other) != len(first):
        raise _other_shape(subject, f"a batch has {len(other)} columns, the first one had {len(first)}")
    for place, (one, two) in enumerate(zip(first, other, strict=True), start=1):
        if not _same_type(one.type, two.type):
            raise _other_shape(
                subject, f"column {place} ('{one.name}') is {two.type} in a batch, {one.type} in the first one"
            )


def _other_shape(subject: str, what: str) -> ConnectorError:
    return ConnectorError(
        f"{subject}: {what}",
        hint="every batch of a read must have the columns and types of the first; declare columns: if the connector "
        "takes a contract, or report it to its authors",
    )


def _same_type(one: pa.DataType, two: pa.DataType) -> bool:
    if pa.types.is_dictionary(one) and pa.types.is_dictionary(two):
        return bool(one.value_type.equals(two.value_type))  # how wide its indices are says nothing about the values
    return bool(one.equals(two))


def enum_types(schema: pa.Schema, landed: Iterable[Column], declared: Mapping[str, str]) -> dict[str, str]:
    """Types of landed columns that are an ENUM in the place, which Arrow's dictionaries do not tell.

    Args:
        schema: of the batches.
        landed: columns as DuckDB understood the batches.
        declared: the source's own description, column -> DuckDB type.

    Returns:
        Column -> the declared type, where that differs from the landed one only by ENUM.
    """
    found: dict[str, str] = {}
    for field, column in zip(schema, landed, strict=True):
        wanted = declared.get(field.name)
        if wanted and "ENUM(" in wanted and _ENUM.sub("VARCHAR", wanted) == column.type:
            found[column.name] = wanted
    return found


def holds_dictionary(kind: pa.DataType) -> bool:
    """Whether a type is a dictionary or has one inside."""
    return pa.types.is_dictionary(kind) or any(holds_dictionary(kind.field(i).type) for i in range(kind.num_fields))


# --- on the way out --------------------------------------------------------------------------------------------------


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with ordinary booleans: DuckDB's lossless Arrow has them as bytes of an extension type."""
    if not any(_holds_bool8(field.type) for field in batch.schema):
        return batch
    arrays = [_plain_array(column) for column in batch.columns]
    schema = pa.schema(
        [pa.field(f.name, a.type, f.nullable) for f, a in zip(batch.schema, arrays, strict=True)], batch.schema.metadata
    )
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def pieces(batch: pa.RecordBatch, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch cut into parts of about ``batch_bytes`` bytes, without copying."""
    size = batch.nbytes
    if size <= batch_bytes * 2 or batch.num_rows < 2:
        yield batch
        return
    step = max(1, batch.num_rows * batch_bytes // size)
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _is_bool8(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.bool8"


def _holds_bool8(kind: pa.DataType) -> bool:
    return _is_bool8(kind) or any(_holds_bool8(kind.field(i).type) for i in range(kind.num_fields))


def _plain_array(array: pa.Array) -> pa.Array:
    kind = array.type
    if _is_bool8(kind):
        return array.storage.cast(pa.bool_())
    if not _holds_bool8(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_plain_array(array.field(i)) for i in range(kind.num_fields)]
        fields = [pa.field(kind.field(i).name, c.type, kind.field(i).nullable) for i, c in enumerate(children)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())
    if pa.types.is_map(kind):
        return _plain_map(array)
    if pa.types.is_list(kind):
        values = _plain_array(array.values)
        made = pa.list_(pa.field(kind.value_field.name, values.type, kind.value_field.nullable))
        return pa.Array.from_buffers(made, len(array), array.buffers()[:2], offset=array.offset, children=[values])
    if pa.types.is_fixed_size_list(kind):
        values = _plain_array(array.values)
        made = pa.list_(pa.field(kind.value_field.name, values.type, kind.value_field.nullable), kind.list_size)
        return pa.Array.from_buffers(made, len(array), array.buffers()[:1], offset=array.offset, children=[values])
    return array


def _plain_map(array: pa.Array) -> pa.Array:
    keys, items = _plain_array(array.keys), _plain_array(array.items)
    entries = pa.StructArray.from_arrays(
        [keys, items], fields=[pa.field("key", keys.type, False), pa.field("value", items.type)]
    )
    return pa.Array.from_buffers(
        pa.map_(keys.type, items.type), len(array), array.buffers()[:2], offset=array.offset, children=[entries]
    )
