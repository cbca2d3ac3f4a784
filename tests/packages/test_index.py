"""pip's settings reach uv."""

from __future__ import annotations

import os
from pathlib import Path

from pz_core.packages.index import no_index, uv_environment


def test_the_settings_of_pip_files_and_variables_are_handed_on(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a/simple\nextra-index-url = https://b\n  https://c\nfind_links = /f /g\n"
    )
    environ = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path), "PIP_CONFIG_FILE": str(file)}
    made = uv_environment(environ)
    assert made["UV_DEFAULT_INDEX"] == "https://a/simple"
    assert made["UV_INDEX"] == "https://b https://c"
    assert made["UV_FIND_LINKS"] == "/f,/g"
    assert made["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    over = uv_environment({**environ, "PIP_INDEX_URL": "https://z", "PIP_FIND_LINKS": "/h"})
    assert (over["UV_DEFAULT_INDEX"], over["UV_FIND_LINKS"]) == ("https://z", "/h")


def test_what_uv_is_set_up_with_outweighs_pip() -> None:
    environ = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://pip", "UV_INDEX_URL": "https://uv"}
    assert "UV_DEFAULT_INDEX" not in uv_environment(environ)


def test_no_index_is_read_as_pip_reads_it() -> None:
    assert no_index({"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"})
    assert not no_index({"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "0"})
    assert not no_index({"PIP_CONFIG_FILE": os.devnull})
