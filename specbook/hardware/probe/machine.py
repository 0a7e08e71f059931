"""What the machine says of itself: caches, memory, processors."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

from specbook.engine.threads import processor_name

Query = Callable[[str], str]

_ROOT = Path("/")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def sysctl(name: str) -> str:
    """What macOS says under a name; empty elsewhere, or if it does not know the name.

    Examples
    --------
    >>> sysctl("no.such.name")
    ''
    """
    if platform.system() != "Darwin":
        return ""
    answer = subprocess.run(["/usr/sbin/sysctl", "-n", name], check=False, capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _size_bytes(text: str) -> int:
    """``32768K`` in bytes; 0 if it is no size."""
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    return int(number) * unit if number.isdigit() else 0


def last_level_cache_bytes(root: Path = _ROOT, query: Query = sysctl) -> int:
    """Size of the cache furthest from the first processor, in bytes.

    Parameters
    ----------
    root : Path
        Where ``sys`` is looked for.
    query : callable
        Asked where there is none, as on macOS.

    Returns
    -------
    int
        0 if the machine does not say.

    Examples
    --------
    >>> last_level_cache_bytes(query=lambda name: "") >= 0
    True
    """
    sizes: dict[int, int] = {}
    for folder in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level = _read(folder / "level")
        if level.isdigit() and _read(folder / "type") != "Instruction":
            sizes[int(level)] = max(sizes.get(int(level), 0), _size_bytes(_read(folder / "size")))
    if sizes:
        return sizes[max(sizes)]
    names = ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")
    return next((size for size in (_size_bytes(query(name)) for name in names) if size), 0)


def total_memory_bytes(root: Path = _ROOT, query: Query = sysctl) -> int:
    """Memory of the machine, or of the control group that the process may not exceed; 0 if unknown.

    Examples
    --------
    >>> total_memory_bytes() >= 0
    True
    """
    found = _meminfo(root).get("MemTotal", 0) or _size_bytes(query("hw.memsize"))
    limit = _group_limit_bytes(root)
    return min(found, limit) if limit and found else found or limit


def available_memory_bytes(root: Path = _ROOT, query: Query = sysctl) -> int:
    """Memory that can be had without pushing anything out; half of all where the system does not say.

    Examples
    --------
    >>> available_memory_bytes() >= 0
    True
    """
    total = total_memory_bytes(root, query)
    available = _meminfo(root).get("MemAvailable", total // 2)
    limit = _group_limit_bytes(root)
    if not limit:
        return available
    used = _size_bytes(_read(root / "sys/fs/cgroup/memory.current"))
    return min(available, max(limit - used, 0))


def _meminfo(root: Path) -> dict[str, int]:
    """Entries of Linux's table in bytes."""
    fields = [line.split() for line in _read(root / "proc/meminfo").splitlines()]
    return {parts[0].rstrip(":"): 1024 * int(parts[1]) for parts in fields if len(parts) == 3 and parts[1].isdigit()}


def _group_limit_bytes(root: Path) -> int:
    """Limit of the control group, as containers have it; 0 for none."""
    return _size_bytes(_read(root / "sys/fs/cgroup/memory.max"))


def n_processors() -> int:
    """Logical processors that this process may use.

    Examples
    --------
    >>> n_processors() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor(query: Query = sysctl) -> str:
    """Name of the processor.

    Examples
    --------
    >>> processor(query=lambda name: "Apple M4" if "brand" in name else "")
    'Apple M4'
    """
    return query("machdep.cpu.brand_string") or processor_name()


_VENDORS = ("AMD", "Intel", "Apple", "NVIDIA", "Ampere", "Qualcomm")


def vendor(device: str) -> str:
    """Who made a device, by its name; ``unknown`` if the name does not say.

    Examples
    --------
    >>> vendor("INTEL(R) XEON(R) GOLD 6430"), vendor("aarch64")
    ('Intel', 'unknown')
    """
    return next((name for name in _VENDORS if name.casefold() in device.casefold()), "unknown")
