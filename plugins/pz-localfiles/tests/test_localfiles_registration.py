from __future__ import annotations

import subprocess
import sys

import pz_localfiles
from pz_localfiles.connector import LocalFiles

from pz_core.contract import RESERVED_CONNECTION_KEYS


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "[m for m in ('duckdb', 'pyarrow') if m in sys.modules]"
    code = f"import sys, pz_localfiles as p; p.pz_connectors(); print({heavy})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_registration_names_a_connector_without_reserved_keys() -> None:
    [registration] = pz_localfiles.pz_connectors()
    assert registration.target == "pz_localfiles.connector:LocalFiles"
    assert not set(LocalFiles.connection_options.names()) & set(RESERVED_CONNECTION_KEYS)
