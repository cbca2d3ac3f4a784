from __future__ import annotations

import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import importlib_metadata
import pytest

from pz_core.errors import PzError
from pz_core.plugins import Registry
from pz_core.plugins.scan import installed

Path_ = Callable[..., None]

CONNECTOR = """
from pz_core import hookimpl
from pz_core.contract import Capabilities, Registration, option_set

class Thing:
    name = "{name}"
    connection_options = read_options = write_options = option_set()
    capabilities = Capabilities()
    def __init__(self, connection): ...
    def open_source(self): ...
    def open_sink(self): ...

@hookimpl
def pz_connectors():
    return [Registration("{name}", "{module}:Thing", "a place", "{api}")]
"""


def connector(name: str, module: str, api: str = ">=1.0,<2") -> str:
    """Source of a module that registers one connector as it should."""
    return CONNECTOR.format(name=name, module=module, api=api)


def install(
    folder: Path,
    distribution: str,
    entry_points: Mapping[str, str] | str,
    modules: Mapping[str, str] | None = None,
    version: str = "1.2.3",
    **more: Any,
) -> Path:
    """Write a distribution into a folder and give the folder back.

    Args:
        entry_points: of the group ``pz``, or the whole text of the file.
        modules: module name -> source.
    """
    folder.mkdir(parents=True, exist_ok=True)
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    metadata = more.get("metadata", f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n\nText.\n")
    if metadata is not None:
        (info / "METADATA").write_text(metadata, encoding="utf-8")
    if not isinstance(entry_points, str):
        entry_points = "[pz]\n" + "".join(f"{k} = {v}\n" for k, v in entry_points.items())
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    for name, source in (modules or {}).items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    names = [f"{m}.py" for m in modules or {}] + [
        f"{info.name}/{n}" for n in ("METADATA", "entry_points.txt", "RECORD")
    ]
    (info / "RECORD").write_text("".join(f"{n},,\n" for n in names), encoding="utf-8")
    return folder


def refused(code: str, call: Callable[..., Any], *arguments: Any) -> PzError:
    with pytest.raises(PzError) as caught:
        call(*arguments)
    assert caught.value.code == code, caught.value.render()
    assert caught.value.hint
    assert "\n" not in caught.value.render()
    return caught.value


def offered(tmp_path: Path, path: Path_, source: str, point: str = "connector.fake", **more: Any) -> Registry:
    install(tmp_path, "pz-fake", {point: "fake_plugin"}, {"fake_plugin": source}, **more)
    path(tmp_path)
    return Registry()


def test_a_plugin_is_found_named_and_loaded(tmp_path: Path, path: Path_) -> None:
    registry = offered(tmp_path, path, connector("fake", "fake_plugin"))
    assert registry.has("connector", "fake")
    offer = registry.offer("connector", "fake")
    assert offer is not None
    assert (offer.distribution, offer.version, offer.path) == ("pz-fake", "1.2.3", str(tmp_path))
    assert registry.load("connector", "fake").name == "fake"
    assert registry.load("connector", "fake") is registry.load("connector", "fake")
    assert registry.registration("connector", "fake").summary == "a place"


def test_looking_up_imports_nothing(tmp_path: Path, path: Path_) -> None:
    registry = offered(tmp_path, path, "raise AssertionError('imported')")
    assert "fake" in registry.names("connector")
    assert registry.offer("connector", "fake") is not None and registry.offers
    assert registry.missing("connector", "other").code == "PZ0305"
    assert "fake_plugin" not in sys.modules


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise ValueError('first\\nsecond')", "ValueError: first"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def (", "SyntaxError"),
        ("class Odd(BaseException): ...\nraise Odd", "Odd"),
        ("from pz_core.errors import PzError\nraise PzError('PZ0999', 'mine')", "PZ0999: mine"),
        ("from pz_core import hookimpl\n@hookimpl\ndef pz_connectors(): return 1 / 0", "ZeroDivisionError"),
        ("from pz_core import hookimpl\n@hookimpl\ndef pz_connectors(): raise SystemExit", "pz_connectors() raised"),
    ],
)
def test_a_plugin_that_raises_is_named_and_harmless_to_others(
    tmp_path: Path, path: Path_, source: str, cause: str
) -> None:
    install(tmp_path, "pz-good", {"connector.good": "fake_good"}, {"fake_good": connector("good", "fake_good")})
    registry = offered(tmp_path, path, source)
    for _ in range(2):
        error = refused("PZ0701", registry.load, "connector", "fake")
        for part in ("pz-fake", "1.2.3", "connector.fake = fake_plugin", cause):
            assert part in error.message
    assert registry.load("connector", "good").name == "good"
    assert registry.load("check", "unique")


def test_an_interrupt_while_importing_is_no_fault_of_the_plugin(tmp_path: Path, path: Path_) -> None:
    registry = offered(tmp_path, path, "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        registry.load("connector", "fake")


def test_two_distributions_of_one_name_are_both_named(tmp_path: Path, path: Path_) -> None:
    for one in ("one", "two"):
        install(
            tmp_path, f"pz-{one}", {"connector.fake": f"fake_{one}"}, {f"fake_{one}": connector("fake", f"fake_{one}")}
        )
    path(tmp_path)
    error = refused("PZ0702", Registry().load, "connector", "fake")
    assert "pz-one 1.2.3" in error.message and "pz-two 1.2.3" in error.message
    assert Registry(allowed=["Pz.Two"]).load("connector", "fake").__module__ == "fake_two"


def test_a_plugin_cannot_take_a_name_of_the_core_unseen(tmp_path: Path, path: Path_) -> None:
    offered(tmp_path, path, "", "check.unique")
    error = refused("PZ0702", Registry().load, "check", "unique")
    assert "pz-core" in error.message and "pz-fake" in error.message
    assert Registry(allowed=[]).load("check", "unique")


def test_two_versions_of_a_distribution_name_both_places(tmp_path: Path, path: Path_) -> None:
    module = {"fake_plugin": connector("fake", "fake_plugin")}
    first = install(tmp_path / "a", "pz-fake", {"connector.fake": "fake_plugin"}, module, version="1.0")
    second = install(tmp_path / "b", "Pz.Fake", {"connector.fake": "fake_plugin"}, module, version="2.0")
    path(first, second)
    error = refused("PZ0703", Registry().load, "connector", "fake")
    for part in ("1.0", "2.0", str(first), str(second)):
        assert part in error.message


def test_two_versions_in_one_folder_are_told_too(tmp_path: Path, path: Path_) -> None:
    install(tmp_path, "pz-fake", {"connector.fake": "fake_plugin"}, version="1.0")
    path(install(tmp_path, "pz-fake", "", version="2.0"))
    refused("PZ0703", Registry().load, "connector", "fake")


def test_one_version_found_twice_is_no_clash(tmp_path: Path, path: Path_) -> None:
    module = {"fake_plugin": connector("fake", "fake_plugin")}
    first = install(tmp_path / "a", "pz-fake", {"connector.fake": "fake_plugin"}, module)
    second = install(tmp_path / "b", "pz-fake", {"connector.fake": "fake_plugin"}, module)
    (tmp_path / "c").symlink_to(first)
    path(first, second, tmp_path / "c")
    assert Registry().load("connector", "fake")
    assert len([o for o in Registry().offers if o.name == "fake"]) == 1


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (">=2.0,<3", "PZ0704"),
        ("<1.0", "PZ0704"),
        ("==1.0", None),
        (">=1.0,<2", None),
        ("soon", "PZ0705"),
        ("", "PZ0705"),
    ],
)
def test_the_api_range_must_include_this_one(tmp_path: Path, path: Path_, api: str, code: str | None) -> None:
    registry = offered(tmp_path, path, connector("fake", "fake_plugin", api))
    if code is None:
        assert registry.load("connector", "fake")
    else:
        assert "pz-fake" in refused(code, registry.load, "connector", "fake").message


HEAD = "from pz_core import hookimpl\nfrom pz_core.contract import Registration\n"
GOOD = 'Registration("fake", "fake_plugin:Thing", "a place", ">=1.0,<2")'


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("x = 1", "pz_connectors() does not register it"),
        (HEAD + f"def pz_connectors(): return [{GOOD}]", "lacks the marker"),
        (HEAD + f"@hookimpl\ndef pz_connector(): return [{GOOD}]", "unknown hook pz_connector"),
        (HEAD + f"@hookimpl(optionalhook=True)\ndef pz_things(): return [{GOOD}]", "unknown hook pz_things"),
        (HEAD + f"@hookimpl\ndef pz_connectors(config): return [{GOOD}]", "config"),
        (HEAD + "@hookimpl(wrapper=True)\ndef pz_connectors(): return (yield)", "wrapper"),
        (HEAD + f"@hookimpl\ndef pz_connectors(): return {GOOD}", "not a list"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return ['fake']", "not a Registration"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return 'fake'", "not a list"),
        (HEAD + f"@hookimpl\ndef pz_connectors(): return [{GOOD}, {GOOD}]", "'fake' twice"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration(target='a:b', summary='', api='>=1')]", "'name'"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration('', 'a:b', '', '>=1')]", "''"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration('Fake', 'a:b', '', '>=1')]", "'Fake'"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration(7, 'a:b', '', '>=1')]", "7"),
        (
            HEAD + "@hookimpl\ndef pz_connectors(): return [Registration('fake', 'fake_plugin', '', '>=1')]",
            "module:attr",
        ),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration('fake', object, '', '>=1')]", "target"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration('fake', 'a:b', None, '>=1')]", "summary"),
        (HEAD + "@hookimpl\ndef pz_connectors(): return [Registration('fake', 'a:b', '', '>=1', 'path')]", "keys"),
        (HEAD + f"@hookimpl\ndef pz_connectors(): return [{GOOD}]", "'fake_plugin:Thing' does not exist"),
        (HEAD + f"Thing = 7\n@hookimpl\ndef pz_connectors(): return [{GOOD}]", "lacks connection_options"),
        (
            connector("fake", "fake_plugin").replace("= option_set()", "= {}"),
            "connection_options of 'fake_plugin:Thing' is no OptionSet",
        ),
        (
            connector("other", "fake_plugin"),
            "registers connector 'other', which no entry point 'connector.other' names",
        ),
        (
            connector("fake", "fake_plugin")
            + "\n@hookimpl\ndef pz_checks(): return [Registration('extra', 'a:b', '', '>=1')]",
            "registers check 'extra'",
        ),
    ],
)
def test_what_registers_wrongly_is_told(tmp_path: Path, path: Path_, source: str, says: str) -> None:
    error = refused("PZ0705", offered(tmp_path, path, source).load, "connector", "fake")
    assert says in error.message
    assert "pz-fake 1.2.3" in error.message


def test_a_target_whose_module_raises_is_told(tmp_path: Path, path: Path_) -> None:
    source = connector("fake", "fake_elsewhere")
    install(tmp_path, "pz-more", {}, {"fake_elsewhere": "raise OSError('no library')"})
    error = refused("PZ0701", offered(tmp_path, path, source).load, "connector", "fake")
    assert "fake_elsewhere" in error.message and "no library" in error.message


@pytest.mark.parametrize("key", ["connector", "entities", "max_concurrency", "rate_limit", "retry"])
def test_a_reserved_connection_key_is_refused(tmp_path: Path, path: Path_, key: str) -> None:
    source = connector("fake", "fake_plugin").replace(
        "connection_options = read", f"connection_options = option_set(Option({key!r}, 'string', 'mine'))\n    read"
    )
    registry = offered(tmp_path, path, source.replace("option_set\n", "option_set, Option\n"))
    error = refused("PZ0345", registry.load, "connector", "fake")
    assert key in error.message and "fake" in error.message and "rate_limit" in str(error.hint)


def test_an_unlisted_connector_is_refused_with_the_line_to_add(tmp_path: Path, path: Path_) -> None:
    offered(tmp_path, path, connector("fake", "fake_plugin"))
    registry = Registry(allowed=["pz-connector-postgres"])
    assert not registry.has("connector", "fake")
    error = refused("PZ0305", registry.load, "connector", "fake")
    assert '{package: pz-fake, version: "1.2.3"}' in str(error.hint)
    assert "fake_plugin" not in sys.modules
    assert registry.load("strategy", "merge")
    assert Registry(allowed=["PZ_Fake"]).load("connector", "fake")


def test_an_unknown_connector_says_what_is_known_and_what_to_install(tmp_path: Path, path: Path_) -> None:
    registry = offered(tmp_path, path, connector("fake", "fake_plugin"))
    error = refused("PZ0305", registry.load, "connector", "fakes")
    assert "fake" in error.message.split("known:")[1]
    assert "did you mean 'fake'" in str(error.hint) and "pip install pz-connector-fakes" in str(error.hint)
    assert "pip install pz-strategy-my-way" in str(refused("PZ0501", registry.load, "strategy", "my_way").hint)
    for kind, name, package in (
        ("state", "postgres", "pz-connector-postgres"),
        ("state", "sqlserver", "pz-connector-sqlserver"),
        ("strategy", "scd2", "pz-strategy-scd"),
    ):
        assert str(registry.missing(kind, name).hint).endswith(f"pip install {package}") or registry.has(kind, name)


@pytest.mark.parametrize(
    "line",
    [
        "postgres = fake_plugin",
        "conector.fake = fake_plugin",
        "connector. = fake_plugin",
        "connector.Fake = fake_plugin",
        "connector.a.b = fake_plugin",
        "connector.fake",
        ".fake = fake_plugin",
        "= fake_plugin",
        "connector.fake = fake_plugin:Thing",
        "connector.fake = fake plugin",
        "connector.fake = fake_plugin [extra]",
    ],
)
def test_a_malformed_entry_point_is_told_when_listing_and_hinders_nobody(
    tmp_path: Path, path: Path_, line: str
) -> None:
    path(install(tmp_path, "pz-fake", f"[pz]\n{line}\n", {"fake_plugin": "raise AssertionError('imported')"}))
    registry = Registry()
    (row,) = [r for r in registry.describe() if r.distribution == "pz-fake"]
    assert row.fault is not None and row.fault.code == "PZ0705"
    assert "pz-fake 1.2.3" in row.fault.message
    assert row.summary is None
    assert "fake" not in registry.names("connector") and "" not in registry.names("connector")
    assert registry.load("check", "unique")


def test_one_distribution_that_names_a_thing_twice_is_malformed(tmp_path: Path, path: Path_) -> None:
    path(install(tmp_path, "pz-fake", "[pz]\nconnector.fake = fake_a\nconnector.fake = fake_b\n"))
    assert "fake_a, fake_b" in refused("PZ0705", Registry().load, "connector", "fake").message


def test_describe_tells_every_thing_with_its_summary_or_its_fault(tmp_path: Path, path: Path_) -> None:
    install(tmp_path, "pz-bad", {"connector.bad": "fake_bad"}, {"fake_bad": "1 / 0"})
    install(tmp_path, "pz-unlisted", {"connector.other": "fake_other"}, {"fake_other": "raise AssertionError"})
    offered(tmp_path, path, connector("fake", "fake_plugin"))
    rows = {(r.kind, r.name): r for r in Registry(allowed=["pz-bad", "pz-fake"]).describe()}
    good, bad, other = (rows["connector", n] for n in ("fake", "bad", "other"))
    assert (good.summary, good.api, good.fault, good.usable) == ("a place", ">=1.0,<2", None, True)
    assert bad.fault is not None and bad.fault.code == "PZ0701" and bad.summary is None
    assert (other.usable, other.fault, other.summary) == (False, None, None)
    assert "fake_other" not in sys.modules
    assert {n for k, n in rows if k == "check"} >= {"unique", "custom_sql"}
    assert all(rows["strategy", n].summary for n in ("append", "merge", "replace"))


def test_load_all_skips_the_broken_ones_and_tells_them(tmp_path: Path, path: Path_) -> None:
    source = (
        "from pz_core import hookimpl\nfrom pz_core.contract import Registration\n"
        "class Watch:\n    name = 'watch'\n    def on_event(self, event): ...\n    def close(self): ...\n"
        "@hookimpl\ndef pz_observers(): return [Registration('watch', 'fake_plugin:Watch', 'watches', '>=1.0')]\n"
    )
    install(tmp_path, "pz-bad", {"observer.bad": "fake_bad"}, {"fake_bad": "import sys; sys.exit()"})
    targets, faults = offered(tmp_path, path, source, "observer.watch").load_all("observer")
    assert [(n, t.name) for n, t in targets.items()] == [("watch", "watch")]
    assert [f.code for f in faults] == ["PZ0701"]


def test_two_distributions_may_share_a_module_name_without_covering_for_each_other(tmp_path: Path, path: Path_) -> None:
    install(tmp_path, "pz-copy", {"connector.copy": "fake_plugin"})
    registry = offered(tmp_path, path, connector("fake", "fake_plugin"))
    assert registry.load("connector", "fake")
    assert "pz-copy" in refused("PZ0705", registry.load, "connector", "copy").message


# --- finding -------------------------------------------------------------------------------------------------------


def points(folder: Path) -> dict[str, tuple[str, tuple[tuple[str, str], ...]]]:
    return {f.name: (f.version, f.entry_points) for f in installed([str(folder)])}


def test_finding_agrees_with_the_standard_library(tmp_path: Path) -> None:
    install(tmp_path, "Pz.One", "# pz\n[console_scripts]\npz = a:b\n\n[pz]\ncheck.a=fake_a\n check.b  =  fake_b \n")
    install(tmp_path, "pz-two", "[pz]\ncheck.c = fake_c\n[pz.other]\ncheck.d = fake_d\n", version="2.0+local.1")
    install(tmp_path, "numpy", "[console_scripts]\nf2py = numpy:main\n")
    assert points(tmp_path) == {
        "pz-one": ("1.2.3", (("check.a", "fake_a"), ("check.b", "fake_b"))),
        "pz-two": ("2.0+local.1", (("check.c", "fake_c"),)),
        "numpy": ("1.2.3", ()),
    }
    for found in importlib_metadata.distributions(path=[str(tmp_path)]):
        ours = points(tmp_path)[found.metadata["Name"].lower().replace(".", "-")]
        assert sorted(ours[1]) == sorted((p.name, p.value) for p in found.entry_points if p.group == "pz")


def test_given_distributions_are_taken_as_they_are(tmp_path: Path) -> None:
    install(tmp_path, "pz-fake", {"connector.fake": "fake_plugin"})
    registry = Registry(found=importlib_metadata.distributions(path=[str(tmp_path)]))
    assert [(o.kind, o.name, o.distribution, o.version) for o in registry.offers] == [
        ("connector", "fake", "pz-fake", "1.2.3")
    ]


def test_damaged_metadata_is_survived(tmp_path: Path) -> None:
    install(tmp_path, "pz-bare", {"check.a": "fake_a"}, metadata=None)
    install(tmp_path, "pz-odd", {"check.b": "fake_b"}, metadata="no header at all")
    (tmp_path / "pz_bytes-1.0.dist-info").mkdir()
    (tmp_path / "pz_bytes-1.0.dist-info" / "entry_points.txt").write_bytes(b"\xff\xfe[pz\x00]\ncheck.c = fake_c")
    (tmp_path / "pz_dir-1.0.dist-info" / "entry_points.txt").mkdir(parents=True)
    (tmp_path / "weird.dist-info").mkdir()
    (tmp_path / "~z-fake-1.0.dist-info").write_text("a file", encoding="utf-8")
    found = points(tmp_path)
    assert found["pz-bare"] == ("1.2.3", (("check.a", "fake_a"),))
    assert found["pz-odd"][1] == (("check.b", "fake_b"),)
    assert found["pz-bytes"][1] == found["pz-dir"][1] == found["weird"][1] == ()


def test_paths_that_are_not_there_and_archives_are_read(tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("pz_zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pz-zipped\nVersion: 1.0\n")
        made.writestr("pz_zipped-1.0.dist-info/entry_points.txt", "[pz]\ncheck.z = fake_z\n")
    (tmp_path / "text").write_text("no archive", encoding="utf-8")
    found = list(installed([str(tmp_path / "nowhere"), str(tmp_path / "text"), str(archive)]))
    assert [(f.name, f.version, f.entry_points) for f in found] == [("pz-zipped", "1.0", (("check.z", "fake_z"),))]


def test_a_hundred_distributions_are_scanned_quickly(tmp_path: Path) -> None:
    for number in range(100):
        text = "[console_scripts]\nx = y:z\n" if number % 3 else f"[pz]\ncheck.c{number} = fake_{number}\n"
        install(tmp_path, f"pz-many-{number}", text)
    best = 1.0
    for _ in range(20):
        started = time.process_time()
        assert sum(len(f.entry_points) for f in installed([str(tmp_path)])) == 34
        best = min(best, time.process_time() - started)
    assert best < 0.03


# --- what is not imported ------------------------------------------------------------------------------------------


def test_contract_checks_strategies_and_state_import_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "import pz_core.contract, pz_core.contract.engine\n"
        "from pz_core.plugins import Registry\n"
        "r = Registry()\n"
        "r.names('check')\n"
        "assert 'pluggy' not in sys.modules and 'importlib_metadata' not in sys.modules, 'looking up imports little'\n"
        "[r.load('check', n)() for n in r.names('check')]\n"
        "[r.load('strategy', n)() for n in ('append', 'merge', 'replace')]\n"
        "r.load('state', 'local')\n"
        "bad = [m for m in ('duckdb', 'pyarrow', 'sqlglot', 'jinja2', 'rich', 'yaml', 'sqlite3') if m in sys.modules]\n"
        "assert not bad, bad\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
