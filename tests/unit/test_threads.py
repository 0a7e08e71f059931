"""BLAS threads and kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbook.engine import threads
from specbook.engine.threads import (
    blas_description,
    blas_threads,
    has_small_product_kernel,
    kernel_advice,
    processor_name,
)


def test_blas_threads_holds_inside_the_block_and_not_behind_it():
    before = blas_description()["threads"]
    with blas_threads(2):
        inside = blas_description()["threads"]
        with blas_threads():
            assert blas_description()["threads"] == 1
        assert blas_description()["threads"] == inside
    assert blas_description()["threads"] == before


@pytest.mark.parametrize("n_threads", [0, -1, 1.5])
def test_blas_threads_impossible_number_is_refused(n_threads: float):
    with pytest.raises(ValueError, match=r"^n_threads must be whole and at least 1; got "), blas_threads(n_threads):
        pass


def test_blas_description_is_numpys_also_when_scipy_brought_its_own():
    import scipy.linalg

    assert scipy.linalg.norm([3.0, 4.0]) == pytest.approx(5.0)
    described = blas_description()
    assert set(described) == {"library", "version", "kernel", "threads"}
    assert described["kernel"] == "unknown" or has_small_product_kernel() == (described["kernel"] in _SMALL)


_SMALL = {"SkylakeX", "Cooperlake", "SapphireRapids"}


def test_blas_description_without_a_known_library_says_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "threadpool_info", lambda: [{"user_api": "openmp"}])
    assert blas_description() == {"library": "unknown", "version": "unknown", "kernel": "unknown", "threads": 1}


def test_blas_description_names_numpys_library_and_not_another(monkeypatch: pytest.MonkeyPatch):
    scipys = {"user_api": "blas", "internal_api": "openblas", "version": "0.3.1", "num_threads": 2}
    numpys = {"user_api": "blas", "internal_api": "mkl", "version": None, "num_threads": 4}
    pools = [
        {"user_api": "openmp", "filepath": "/lib/numpy.libs/libgomp.so"},
        scipys | {"architecture": "Haswell", "filepath": "/lib/scipy.libs/libopenblas.so"},
        numpys | {"filepath": "/lib/numpy.libs/libmkl.so"},
    ]
    monkeypatch.setattr(threads, "threadpool_info", lambda: pools)
    assert blas_description() == {"library": "mkl", "version": "unknown", "kernel": "unknown", "threads": 4}


AVX_512 = "avx2 avx512f avx512cd avx512bw avx512dq avx512vl"


@pytest.mark.parametrize(
    ("library", "kernel", "flags", "is_told"),
    [
        ("openblas", "Haswell", AVX_512, True),
        ("openblas", "Zen", f"{AVX_512} avx512_bf16", True),
        ("openblas", "Haswell", "avx2 fma avx512f", False),
        ("openblas", "Haswell", "", False),
        ("openblas", "SkylakeX", AVX_512, False),
        ("mkl", "Haswell", AVX_512, False),
    ],
)
def test_kernel_advice_is_for_openblas_with_older_kernels_than_the_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str, kernel: str, flags: str, is_told: bool
):
    pool = {"user_api": "blas", "internal_api": library, "num_threads": 1, "filepath": "numpy", "architecture": kernel}
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nmodel name\t: A processor\nflags\t\t: {flags}\n")
    monkeypatch.setattr(threads, "threadpool_info", lambda: [pool])
    monkeypatch.setattr(threads, "_CPUINFO", cpuinfo)
    assert processor_name() == "A processor"
    advice = kernel_advice()
    assert (advice is not None) == is_told
    assert advice is None or f"its {kernel} kernels" in advice
