"""Where files are looked for and written, and what is refused before anything is opened."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest
from pz_localfiles.connector import LocalFiles

from pz_core.contract import ConnectionConfig, ReadSpec, WriteSpec
from pz_core.contract.connector import ConnectorError, NativeCopy

RUN = "20260902T101533221Z-4c1a"


def lake(project: Path, **options: str) -> LocalFiles:
    return LocalFiles(ConnectionConfig("lake", "localfiles", options, str(project)))


def target_of(project: Path, spec: WriteSpec, **options: str) -> str:
    made = lake(project, **options).open_sink().native_write(spec)
    assert isinstance(made, NativeCopy)
    return made.moves[0].target


def test_replace_without_a_path_writes_the_entity_into_its_own_folder(tmp_path: Path) -> None:
    spec = WriteSpec("orders", {"format": "csv"}, "replace", "swap", run_id=RUN)
    assert target_of(tmp_path, spec, root="out") == str(tmp_path / "out/orders/orders.csv")


def test_append_names_a_file_of_the_run_that_a_second_attempt_writes_again(tmp_path: Path) -> None:
    first = WriteSpec("orders", {}, "append", "add", run_id=RUN, attempt=1)
    second = WriteSpec("orders", {}, "append", "add", run_id=RUN, attempt=2)
    assert target_of(tmp_path, first) == str(tmp_path / f"orders/orders-{RUN}-1.parquet") == target_of(tmp_path, second)


def test_an_absolute_path_ignores_the_root(tmp_path: Path) -> None:
    spec = WriteSpec("orders", {"path": str(tmp_path / "else")}, "replace", "swap", run_id=RUN)
    assert target_of(tmp_path / "project", spec, root="out") == str(tmp_path / "else/orders.parquet")


def test_planning_a_write_makes_nothing_and_looks_at_nothing(tmp_path: Path) -> None:
    made = lake(tmp_path, root="out").open_sink().native_write(WriteSpec("orders", {}, "replace", "swap"))
    assert list(tmp_path.iterdir()) == []
    assert made.removes == ()


@pytest.mark.parametrize("path", ["../lake2/a.csv", "a/../../lake2/a.csv", "../lake2/*.csv"])
def test_a_relative_path_that_leaves_its_root_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "lake2").mkdir()
    faults = lake(tmp_path, root="lake").validate_read(ReadSpec("a", {"path": path}))
    assert [f.code for f in faults] == ["PZ0365"]
    assert "lake2" not in faults[0].message


def test_a_symbolic_link_out_of_the_root_is_refused_for_reads_and_writes(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "lake/link").symlink_to(tmp_path / "elsewhere")
    connector = lake(tmp_path, root="lake")
    assert [f.code for f in connector.validate_read(ReadSpec("a", {"path": "link/*.csv"}))] == ["PZ0365"]
    assert [f.code for f in connector.validate_write(WriteSpec("a", {"path": "link"}))] == ["PZ0365"]


def test_a_root_that_is_itself_a_link_is_no_escape(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "real")
    assert not lake(tmp_path, root="lake").validate_read(ReadSpec("a", {"path": "sub/../a.csv"}))


def test_an_entity_cannot_leave_the_root_by_its_name(tmp_path: Path) -> None:
    connector = lake(tmp_path, root="lake")
    assert [f.code for f in connector.validate_write(WriteSpec("../evil"))] == ["PZ0365"]
    assert [f.code for f in connector.validate_write(WriteSpec("/etc/evil"))] == ["PZ0365"]


def test_wrong_formats_and_options_of_other_formats_are_named(tmp_path: Path) -> None:
    connector = lake(tmp_path)
    [fault] = connector.validate_read(ReadSpec("a", {"format": "xlsx"}))
    assert (fault.code, "parquet" in fault.message) == ("PZ0361", True)
    [fault] = connector.validate_read(ReadSpec("a", {"format": "parquet", "delimiter": ";"}))
    assert (fault.code, "delimiter" in fault.message) == ("PZ0362", True)
    [fault] = connector.validate_read(ReadSpec("a", {"format": "csv", "delimiter": ";;"}))
    assert fault.code == "PZ0362"
    [fault] = connector.validate_write(WriteSpec("a", {"format": "parquet", "compression": "zip"}))
    assert fault.code == "PZ0362"


def test_the_ending_of_the_path_says_the_format(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"n": 1}\n')
    source = lake(tmp_path).open_source()
    assert [c.type for c in source.schema(ReadSpec("x", {"path": "a.ndjson"}))] == ["BIGINT"]


def test_a_missing_file_is_named_relative_to_the_project_and_is_final(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match=r"lake\.orders: file in/orders\.csv does not exist") as caught:
        lake(tmp_path, root="in").open_source().resolve_scan(ReadSpec("orders", {"format": "csv"}))
    assert not caught.value.transient
    with pytest.raises(ConnectorError, match=r"no file matches in/x/\*\.csv"):
        lake(tmp_path, root="in").open_source().resolve_scan(ReadSpec("orders", {"path": "x/*.csv"}))


@pytest.mark.parametrize("name", ["a[1].csv", "b*c.csv", "q?.csv", "it's.csv", "sp ace.csv", "é#%41+&.csv", "{x}.csv"])
def test_names_with_odd_characters_are_taken_as_they_are(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("n\n1\n")
    (tmp_path / "decoy1.csv").write_text("n\n2\n")
    source = lake(tmp_path).open_source()
    batches = list(source.read(ReadSpec("x", {"path": name}), source.partitions(ReadSpec("x"))[0], 10))
    assert [row["n"] for b in batches for row in b.to_pylist()] == [1]


def test_check_accepts_a_folder_to_come_and_refuses_a_file(tmp_path: Path) -> None:
    assert lake(tmp_path, root="new").check().ok
    (tmp_path / "file").write_text("")
    assert not lake(tmp_path, root="file").check().ok


def test_a_file_being_written_is_matched_by_no_glob_of_data_files(tmp_path: Path) -> None:
    for ending in ("parquet", "csv", "json"):
        made = (
            lake(tmp_path).open_sink().native_write(WriteSpec("o", {"format": ending}, "replace", "swap", run_id=RUN))
        )
        # DuckDB's globs, unlike a shell's, match names that begin with a dot.
        assert isinstance(made, NativeCopy) and not made.path.endswith(ending)
        assert not fnmatch.fnmatch(Path(made.path).name, f"*.{ending}")


def test_a_file_that_links_to_folders_lead_to_again_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "in/2026").mkdir(parents=True)
    (tmp_path / "in/2026/a.csv").write_text("n\n1\n")
    (tmp_path / "in/latest").symlink_to("2026")
    (tmp_path / "in/2026/loop").symlink_to("..")
    source = lake(tmp_path).open_source()
    for path in ("in/*/*.csv", "in/**/*.csv"):
        batches = list(source.read(ReadSpec("x", {"path": path}), source.partitions(ReadSpec("x"))[0], 10))
        assert [row["n"] for b in batches for row in b.to_pylist()] == [1], path


def test_the_place_of_a_write_is_one_whatever_names_lead_there(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    def place(entity: str, root: str, **options: str) -> str:
        return lake(tmp_path, root=root).write_place(WriteSpec(entity, options, "replace", "swap"))

    assert place("a/x", "real", path="t") == place("b/x", "link", path="t/") == place("x", "real", path="./u/../t")
    assert place("x", "real") != place("y", "real", path="x")
    assert place("x", "real", format="csv") != place("x", "real", format="parquet")


def test_an_absolute_base_asks_for_no_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("os.getcwd", gone)
    assert lake(tmp_path).validate() == ()
