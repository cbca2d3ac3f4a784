"""The one table of types and the plain values that configuration is made of."""

from __future__ import annotations

from pz_core.values.config import Scalar, Value, canonical_json
from pz_core.values.quoting import quote_identifier, quote_literal, quote_path
from pz_core.values.types import (
    CONTRACT_TYPES,
    CURSOR_TYPES,
    Column,
    TypeWord,
    duckdb_type,
    holds_exactly,
    is_type_word,
)

__all__ = [
    "CONTRACT_TYPES",
    "CURSOR_TYPES",
    "Column",
    "Scalar",
    "TypeWord",
    "Value",
    "canonical_json",
    "duckdb_type",
    "holds_exactly",
    "is_type_word",
    "quote_identifier",
    "quote_literal",
    "quote_path",
]
