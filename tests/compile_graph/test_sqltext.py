from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pz_core.compile.ephemeral import inline
from pz_core.compile.sqltext import ends_in_line_comment, mask, normalise, second_statement, with_clause

PIECES = st.lists(
    st.sampled_from(
        ["select ", "1", ";", "\n", "--", "/*", "*/", "'", '"', "$$", "$t$", "E'", "\\", "a$$b", " ", "''", "with "]
    ),
    max_size=14,
).map("".join)


@pytest.mark.parametrize(
    ("sql", "made"),
    [
        ("select 1;", "select 1"),
        ("select 1 ;  \n\n", "select 1"),
        ("select 1;;", "select 1;"),
        ("select 1; -- a;", "select 1 -- a;"),
        ("select 1 -- a;", "select 1 -- a;"),
        ("select 1 /* ; */", "select 1 /* ; */"),
        ("select ';'", "select ';'"),
        ("select E'\\';'", "select E'\\';'"),
        ("select $x$;$x$;", "select $x$;$x$"),
        ("  select '\r\n'", "  select '\r\n'"),
    ],
)
def test_normalise(sql, made):
    assert normalise(sql) == made


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("select 1; select 2", 8),
        ("select ';', \";\", $$;$$, a$$b -- ;\n/* ; /* ; */ ; */", None),
        ("select e';\\'; ', 1; x", 18),
        ("select 'it''s;'", None),
    ],
)
def test_second_statement(sql, at):
    assert second_statement(sql) == at


@given(PIECES)
def test_a_mask_keeps_length_and_line_ends_of_comments(sql):
    seen = mask(sql)
    assert len(seen) == len(sql)
    assert mask(seen.replace("'", "q").replace('"', "q")) == seen.replace("'", "q").replace('"', "q")


@given(PIECES, PIECES)
def test_normalised_text_is_stable_and_a_body_always_closes(sql, body):
    once = normalise(sql)
    assert once == once.rstrip() and len(once) <= len(sql)
    closed = inline("select 1", {"e": normalise(body)})
    head = f"with __pz_cte__e as ({normalise(body)}"
    assert closed.startswith(head)
    # Whatever ends a body, code put behind it is code: an open quote or block comment is the author's own fault.
    if mask(body + "\n)").endswith(")"):
        rest = mask(closed)[len(head) :]
        assert rest.lstrip("\n").startswith(")")


@pytest.mark.parametrize(
    ("sql", "inside"),
    [
        ("select 1 -- a", True),
        ("select '--'", False),
        ("-- a\nselect 1", False),
        ("select 1 /* -- */", False),
        ("", False),
    ],
)
def test_ends_in_line_comment(sql, inside):
    assert ends_in_line_comment(sql) is inside


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("with a as (select 1) from a", 4),
        ("-- with\n WITH  Recursive a", 24),
        ("without", None),
        ("select 1 with", None),
        ("/* x */with(", 11),
    ],
)
def test_with_clause(sql, at):
    assert with_clause(sql) == at
