"""What a machine says of itself, read from a copy of its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specbook.hardware.probe import machine

MEMINFO = (
    "MemTotal:       24684096 kB\nMemFree:        1000 kB\nMemAvailable:   20480000 kB\nHugePages_Total:       0\n"
)

Root = Callable[..., Path]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A root folder that holds these files."""

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="utf-8")
        return tmp_path

    return write


def _cache(index: int, level: int, kind: str, size: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu0/cache/index{index}"
    return {f"{folder}/level": str(level), f"{folder}/type": kind, f"{folder}/size": size}


def silence(_: str) -> str:
    return ""


def test_last_level_cache_is_the_one_with_the_highest_level(root: Root):
    small, code = _cache(0, 1, "Data", "32K"), _cache(1, 1, "Instruction", "64K")
    files = small | code | _cache(2, 2, "Unified", "1024K") | _cache(3, 3, "Unified", "32768K")
    assert machine.last_level_cache_bytes(root(files), silence) == 32 * 2**20


def test_last_level_cache_in_mebibytes_is_read(root: Root):
    assert machine.last_level_cache_bytes(root(_cache(0, 3, "Unified", "24M")), silence) == 24 * 2**20


def test_last_level_cache_of_instructions_alone_is_none(root: Root):
    assert machine.last_level_cache_bytes(root(_cache(0, 1, "Instruction", "32K")), silence) == 0


def test_last_level_cache_of_macos_is_asked_for(tmp_path: Path):
    answers = {"hw.perflevel0.l2cachesize": "16777216"}
    assert machine.last_level_cache_bytes(tmp_path, lambda name: answers.get(name, "")) == 16 * 2**20


def test_last_level_cache_that_nobody_states_is_0(tmp_path: Path):
    assert machine.last_level_cache_bytes(tmp_path, silence) == 0


def test_memory_of_linux_is_in_kibibytes(root: Root):
    folder = root({"proc/meminfo": MEMINFO})
    assert machine.total_memory_bytes(folder, silence) == 24684096 * 1024
    assert machine.available_memory_bytes(folder, silence) == 20480000 * 1024


def test_memory_of_a_container_is_its_limit(root: Root):
    limit, used = 4 * 2**30, 2**30
    files = {"sys/fs/cgroup/memory.max": str(limit), "sys/fs/cgroup/memory.current": str(used)}
    folder = root({"proc/meminfo": MEMINFO} | files)
    assert machine.total_memory_bytes(folder, silence) == limit
    assert machine.available_memory_bytes(folder, silence) == limit - used


def test_memory_of_a_container_without_a_limit_is_the_machines(root: Root):
    folder = root({"proc/meminfo": MEMINFO, "sys/fs/cgroup/memory.max": "max"})
    assert machine.total_memory_bytes(folder, silence) == 24684096 * 1024


def test_memory_of_macos_is_asked_for_and_half_of_it_is_available(tmp_path: Path):
    def answer(name: str) -> str:
        return "68719476736" if name == "hw.memsize" else ""

    assert machine.total_memory_bytes(tmp_path, answer) == 64 * 2**30
    assert machine.available_memory_bytes(tmp_path, answer) == 32 * 2**30


def test_this_machine_has_memory_and_processors():
    assert machine.n_processors() >= 1
    assert machine.total_memory_bytes() >= machine.available_memory_bytes() > 0


@pytest.mark.parametrize(
    ("device", "maker"),
    [("AMD EPYC 9654", "AMD"), ("Intel(R) Xeon(R)", "Intel"), ("NVIDIA H100", "NVIDIA"), ("", "unknown")],
)
def test_vendor_is_in_the_name(device: str, maker: str):
    assert machine.vendor(device) == maker
