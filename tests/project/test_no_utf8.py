"""Texts that no file can hold: bytes of the environment that are no UTF-8, and escapes of half a character."""

from __future__ import annotations

from pathlib import Path

import pytest

from pz_core.compile.graph import compile_project
from pz_core.errors import PzErrors
from pz_core.project import load_project
from pz_core.values.config import is_unicode

ODD = b"pa\xffss".decode("utf-8", "surrogateescape")


def project(
    root: Path, *, connections: str = "lake: {connector: localfiles}\n", extra: str = "", sql: str = "select 1"
):
    (root / "pipelines").mkdir()
    (root / "project.yml").write_text(f"name: p\nversion: 0.1.0\n{extra}")
    (root / "connections.yml").write_text(connections)
    (root / "pipelines/a.sql").write_text(sql)
    return root


@pytest.mark.parametrize(
    ("given", "file"),
    [
        ({"connections": "lake:\n  connector: localfiles\n  token: x-${ODD}\n"}, "connections.yml:3"),
        ({"extra": "vars:\n  t: [1, '${ODD}']\n"}, "project.yml:4"),
        ({"extra": "env: [ODD]\n", "sql": "select 1,\n'{{ env('ODD') }}'"}, "pipelines/a.sql:2"),
    ],
)
def test_bytes_of_the_environment_are_refused_where_they_are_used(tmp_path, given, file):
    root = project(tmp_path, **given)
    with pytest.raises(PzErrors) as caught:
        compile_project(load_project(root, environ={"ODD": ODD}), environ={"ODD": ODD})
    (error,) = caught.value
    assert error.code == "PZ0103" and str(error.where) == file
    assert "ODD" in error.message and "pa" not in error.message.replace("path", "") and error.hint


def test_half_a_character_in_vars_is_refused(tmp_path):
    with pytest.raises(PzErrors) as caught:
        load_project(project(tmp_path), environ={}, vars_json='{"a": {"b": ["x\\ud800"]}}')
    assert [e.code for e in caught.value] == ["PZ0102"]
    whole = load_project(tmp_path, environ={}, vars_json='{"a": "\\ud83d\\ude00"}')
    assert whole.project.vars["a"] == "😀"


@pytest.mark.parametrize(
    ("value", "fine"),
    [
        ("", True),
        ("é😀", True),
        ("\udcff", False),
        ([1, {"a": "\ud800"}], False),
        ({"\udfff": 1}, False),
        ((1.5,), True),
    ],
)
def test_what_counts_as_text(value, fine):
    assert is_unicode(value) is fine
