"""Stages in folders: kept, run again, resumed after a kill at any point, and refused where something was edited."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from specbook.checks import BadInput
from specbook.files import write_text
from specbook.stage_folder import Gate, Stage, alone_in, read_manifest, run_stages

NAMES = ("1-first", "2-second", "3-third")


def stages(ran: list[str], **inputs: Any) -> list[Stage]:
    """Three stages, each of which reads what the one before it wrote."""

    def stage(number: int) -> Stage:
        name = NAMES[number]

        def run(folder: Path) -> Gate:
            before = "" if number == 0 else (folder.parent / NAMES[number - 1] / "text.txt").read_text()
            write_text(folder / "text.txt", f"{before}{name} of {inputs.get(name)}\n")
            write_text(folder / "more.json", "{}")
            ran.append(name)
            return Gate(entered=9 - number, left=8 - number, dropped={"too slow": 1})

        return Stage(name=name, inputs={"value": inputs.get(name)}, run=run)

    return [stage(number) for number in range(3)]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_stages_run_once_and_are_kept(tmp_path: Path):
    ran: list[str] = []
    seen: list[tuple[str, bool]] = []
    gates = run_stages(tmp_path, stages(ran))
    before = contents(tmp_path)
    assert run_stages(tmp_path, stages(ran), lambda *event: seen.append(event)) == gates
    assert ran == list(NAMES)
    assert seen == [(name, True) for name in NAMES]
    assert contents(tmp_path) == before
    assert [gate.left for gate in gates.values()] == [8, 7, 6]


@pytest.mark.parametrize("changed", range(3))
def test_a_changed_input_runs_its_stage_and_those_after_it(tmp_path: Path, changed: int):
    run_stages(tmp_path / "a", stages([]))
    ran: list[str] = []
    run_stages(tmp_path / "a", stages(ran, **{NAMES[changed]: "other"}))
    assert ran == list(NAMES[changed:])
    run_stages(tmp_path / "b", stages([], **{NAMES[changed]: "other"}))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_that_fails_leaves_the_others_and_nothing_of_its_own(tmp_path: Path, name: str):
    def fail(folder: Path) -> Gate:
        write_text(folder / "half.txt", "half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    whole, ran = stages([]), []
    broken = [Stage(name=each.name, inputs=each.inputs, run=fail if each.name == name else each.run) for each in whole]
    with pytest.raises(BadInput, match=r"cannot be written \(no space left on device\); choose another --out, or make"):
        run_stages(tmp_path, broken)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", *NAMES[: NAMES.index(name)]]
    run_stages(tmp_path, stages(ran))
    assert ran == list(NAMES[NAMES.index(name) :])


def test_an_edited_file_is_refused_whichever_stage_it_is_of(tmp_path: Path):
    for name in NAMES:
        folder = tmp_path / name
        run_stages(folder, stages([]))
        (folder / name / "text.txt").write_text("mine")
        with pytest.raises(BadInput, match=rf"{name}/text.txt: was edited since its stage made it; delete"):
            run_stages(folder, stages([]))
        (folder / name / "text.txt").unlink()
        with pytest.raises(BadInput, match=rf"{name}/text.txt: is missing from its stage"):
            run_stages(folder, stages([]))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"specbook_version": "0.0.1"}, "was made by specbook 0.0.1, and this is "),
        ({"left": -1}, "left = -1"),
        ({"left": 3}, r"2-second/manifest.json: dropped: 3 left and .* are not the 8 that entered; delete"),
        ({"schema": "specbook-stage/2"}, "unknown schema"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_manifest_of_another_version_or_with_other_fields_is_refused(
    tmp_path: Path, change: Mapping[str, Any], error: str
):
    run_stages(tmp_path, stages([]))
    path = tmp_path / NAMES[1] / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BadInput, match=error):
        run_stages(tmp_path, stages([]))


def test_two_runs_in_one_folder_are_refused(tmp_path: Path):
    with alone_in(tmp_path), pytest.raises(BadInput, match="another funnel is at work in it; wait for it, or choose"):
        run_stages(tmp_path, stages([]))
    assert run_stages(tmp_path, stages([]))


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        run_stages(tmp_path / "file", stages([]))


# What is killed: after so many calls of os-level renames and writes the process sends itself SIGKILL.
KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.test_stage_folder import stages
from specbook.stage_folder import run_stages
left = int(sys.argv[2])
def trace(event, arguments):
    global left
    of_ours = event in ("open", "os.rename", "os.mkdir", "shutil.rmtree") and sys.argv[1] in str(arguments[0])
    if of_ours or event in ("os.remove", "os.rmdir"):  # which a tree's removal names without its folder
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(trace)
run_stages(Path(sys.argv[1]), stages([], **{name: "other" for name in sys.argv[3:]}))
"""


def killed(folder: Path, n_calls: int, *changed: str) -> int:
    command = [sys.executable, "-c", KILLED, str(folder), str(n_calls), *changed]
    return subprocess.run(command, check=False, cwd=Path(__file__).parents[2]).returncode


def test_a_run_that_was_killed_anywhere_goes_on_to_the_same_bytes(tmp_path: Path):
    run_stages(tmp_path / "whole", stages([]))
    whole, survived = contents(tmp_path / "whole"), False
    for n_calls in range(2, 200, 9):
        folder = tmp_path / f"killed-{n_calls}"
        code = killed(folder, n_calls)
        survived = code == 0
        assert survived or code == -signal.SIGKILL
        run_stages(folder, stages([]))
        assert contents(folder) == whole
        if survived:
            break
    assert survived


def test_a_run_that_was_killed_while_it_replaced_a_stage_goes_on(tmp_path: Path):
    changes = {NAMES[2]: "other"}
    run_stages(tmp_path / "whole", stages([], **changes))
    whole, survived = contents(tmp_path / "whole"), False
    # Before these calls the kept stages are read and the last one is made; in them it takes the other's place.
    for n_calls in range(35, 60):
        folder = tmp_path / f"killed-{n_calls}"
        run_stages(folder, stages([]))
        survived = killed(folder, n_calls, *changes) == 0
        run_stages(folder, stages([], **changes))
        assert contents(folder) == whole
        if survived:
            break
    assert survived


def test_a_file_of_somebody_else_is_not_deleted_with_a_stage_that_runs_again(tmp_path: Path):
    run_stages(tmp_path, stages([]))
    (tmp_path / NAMES[1] / "notes.txt").write_text("mine")
    run_stages(tmp_path, stages([]))
    with pytest.raises(BadInput, match=rf"{NAMES[1]}/notes.txt: is no file of its stage; move it elsewhere"):
        run_stages(tmp_path, stages([], **{NAMES[0]: "other"}))
    assert (tmp_path / NAMES[1] / "notes.txt").read_text() == "mine"


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_is_one_line_and_leaves_what_was_complete(tmp_path: Path):
    def fill(folder: Path) -> Gate:
        write_text(folder / "large.txt", "x" * 100_000)
        return Gate(entered=1, left=1, dropped={})

    whole, ran = stages([]), []
    broken = [*whole[:2], Stage(name=NAMES[2], inputs=whole[2].inputs, run=fill)]
    with small_disk(tmp_path / "disk") as disk:
        with pytest.raises(BadInput, match=r"cannot be written \(no space left on device\)") as refused:
            run_stages(disk / "s", broken)
        assert "\n" not in str(refused.value)
        assert sorted(path.name for path in (disk / "s").iterdir()) == [".lock", *NAMES[:2]]
        run_stages(disk / "s", stages(ran))
        assert ran == [NAMES[2]]


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 64 kB; a machine that does not let us mount one skips."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(("entered", "left", "dropped"), [(3, 3, {"slow": 1}), (3, 1, {"slow": 1}), (0, 1, {})])
def test_a_gate_adds_up(entered: int, left: int, dropped: dict[str, int]):
    with pytest.raises(ValueError, match="are not the"):
        Gate(entered=entered, left=left, dropped=dropped)


def test_a_manifest_says_what_a_stage_is_made_from(tmp_path: Path):
    run_stages(tmp_path, stages([], **{NAMES[0]: 7}))
    manifest = read_manifest(tmp_path / NAMES[0])
    assert manifest.inputs == {"value": 7}
    assert set(manifest.files) == {"text.txt", "more.json"}
