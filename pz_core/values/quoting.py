"""Quoting for generated SQL: identifiers and literals go through here, never through an f-string alone."""

from __future__ import annotations


def quote_identifier(name: str) -> str:
    """``a"b`` becomes ``"a""b"``: right in DuckDB and in PostgreSQL for any name."""
    return '"' + name.replace('"', '""') + '"'


def quote_path(*names: str) -> str:
    """Several names joined by dots, each quoted: ``("mart", "orders")`` becomes ``"mart"."orders"``."""
    return ".".join(quote_identifier(n) for n in names)


def quote_literal(text: str) -> str:
    """``it's`` becomes ``'it''s'``."""
    return "'" + text.replace("'", "''") + "'"
