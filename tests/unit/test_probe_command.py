"""``specbook probe``: the file, the tables, JSON, bad options, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specbook.commands import probe as command
from specbook.display.probe_terminal import show_probe
from specbook.engine import threads
from specbook.hardware.probe import run
from specbook.hardware.profile import catalogue_device, load_hardware
from tests.fake_devices import fake_backend


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch):
    """The command probes a fake device; the test may change it before."""
    backend = fake_backend()
    monkeypatch.setattr(command, "_backend", lambda *_: backend)
    monkeypatch.setattr(threads, "kernel_advice", lambda: None)
    return backend


def test_probe_writes_a_profile_that_can_be_read(cli, tmp_path: Path):
    out = tmp_path / "hw.json"
    outcome = cli("probe", "--out", out, "--name", "mine")
    assert outcome.code == 0
    assert outcome.out.endswith(f"wrote {out}\n")
    profile = load_hardware(str(out))
    assert (profile.name, profile.device) == ("mine", "Model T")
    assert profile.probe is not None
    assert (
        outcome.err
        == f"specbook: note: takes at most {profile.probe.scratch_bytes / 1e6:,.0f} MB of memory, and gives it back\n"
    )


def test_probe_prints_what_a_person_reads(cli, tmp_path: Path):
    outcome = cli("probe", "--out", tmp_path / "hw.json", "--peak-bandwidth", 20)
    lines = [line.split() for line in outcome.out.splitlines()]
    rows = {line[0]: line for line in lines if line}
    assert rows["triad"][1:4] == ["10.00", "10.00", "10.00"]
    assert rows["read"][-1] == "GB/s"
    assert "MBU 0.50: read ÷ 20.0 GB/s (stated by the user)" in outcome.out
    assert "verify(5) ÷ step(1)" in outcome.out
    for model in ("specbook-target-r8", "specbook-target", "specbook-draft"):
        assert f"{model}: ms a pass" in outcome.out
    cells = [line for line in lines if line[:3] == ["exact", "16", "16,384"]]
    assert len(cells) == 2  # of the target and of the drafter
    assert all("–" not in row for row in cells)


def test_probe_of_five_seconds_prints_too(cli, tmp_path: Path):
    outcome = cli("probe", "--out", tmp_path / "hw.json", "--seconds", 5)
    assert outcome.code == 0
    assert "ms a pass" in outcome.out


def test_probe_as_json_is_the_file(cli, tmp_path: Path):
    outcome = cli("probe", "--out", tmp_path / "hw.json", "--seconds", 5, "--json")
    assert json.loads(outcome.out) == json.loads((tmp_path / "hw.json").read_text(encoding="utf-8"))


def test_probe_takes_the_peak_of_the_catalogue(cli, tmp_path: Path):
    cli("probe", "--out", tmp_path / "hw.json", "--seconds", 5, "--catalogue", "Genoa")
    peak = load_hardware(str(tmp_path / "hw.json")).peak_bandwidth_bytes_per_s
    of_catalogue = catalogue_device("genoa").peak_bandwidth_bytes_per_s
    assert peak is not None
    assert of_catalogue is not None
    assert (peak.value, peak.source, peak.url) == (of_catalogue.value, "catalogue genoa", of_catalogue.url)


def test_probe_prints_warnings_on_standard_error(cli, device, tmp_path: Path):
    device.free_bytes = 4 * 2**30
    outcome = cli("probe", "--out", tmp_path / "hw.json", "--json")
    assert "specbook: warning: left out for want of memory: batch 16 × context 16,384\n" in outcome.err
    assert json.loads(outcome.out)["probe"]["warnings"]


def test_probe_is_named_after_its_processor(cli, tmp_path: Path):
    cli("probe", "--out", tmp_path / "hw.json", "--seconds", 5)
    assert load_hardware(str(tmp_path / "hw.json")).name == "model-t"


@pytest.mark.parametrize(
    ("device_name", "slug"),
    [
        ("Intel(R) Xeon(R) Gold 6430 CPU @ 2.10GHz", "intel-xeon-gold-6430-cpu"),
        ("AMD EPYC", "amd-epyc"),
        ("", "this-machine"),
    ],
)
def test_slug_is_a_name_for_the_command_line(device_name: str, slug: str):
    assert command._slug(device_name) == slug


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--seconds", 4), ("--seconds = 4.0: is no time to probe a machine in", "5 to 3600")),
        (("--seconds", "nan"), ("--seconds = nan",)),
        (("--seconds", "inf"), ("--seconds = inf",)),
        (("--seconds", "soon"), ("--seconds", "valid number")),
        (("--threads", 0), ("--threads",)),
        (("--device", "tpu"), ("--device", "tpu")),
        (("--peak-bandwidth", 0), ("--peak-bandwidth = 0.0: is no bandwidth",)),
        (("--peak-bandwidth", "nan"), ("--peak-bandwidth = nan",)),
        (("--peak-bandwidth", 9), ("below the 10.0 GB/s that the probe sustained", "correct the peak")),
        (("--peak-bandwidth", 20, "--catalogue", "genoa"), ("--peak-bandwidth", "--catalogue", "leave one")),
        (("--catalogue", "abacus"), ("'abacus'", "no such device", "genoa")),
    ],
)
def test_bad_options_are_one_line_and_leave_no_file(cli, tmp_path: Path, arguments, parts):
    out = tmp_path / "hw.json"
    outcome = cli("probe", "--out", out, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    error = [line for line in outcome.err.splitlines() if "note: takes at most" not in line]
    assert len(error) == 1
    for part in parts:
        assert part in error[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "file/hw.json"])
def test_out_that_cannot_be_written_is_refused_before_anything_is_measured(cli, device, tmp_path: Path, name: str):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    outcome = cli("probe", "--out", tmp_path / name)
    assert outcome.code == 2
    assert "--out" in outcome.err
    assert device.done == []


def test_more_threads_than_processors_are_refused(cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.undo()
    monkeypatch.setenv("COLUMNS", "200")
    outcome = cli("probe", "--out", tmp_path / "hw.json", "--threads", 10_000)
    assert outcome.code == 2
    assert "--threads = 10000: is more than this process may use" in outcome.err


def test_interrupted_probe_is_one_line_and_leaves_no_file(cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_tasks", interrupted)
    outcome = cli("probe", "--out", tmp_path / "hw.json")
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err.splitlines()[-1] == "specbook: interrupted; nothing was written"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_interrupted_process_leaves_no_file(tmp_path: Path):
    code = "from specbook.cli import main; main()"
    arguments = [sys.executable, "-c", code, "probe", "--out", str(tmp_path / "hw.json"), "--seconds", "60"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = [process.stderr.readline()]
    while "takes at most" not in told[-1]:
        assert "note: " in told[-1]
        told.append(process.stderr.readline())
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err == "specbook: interrupted; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_show_probe_of_a_catalogue_device_is_refused():
    with pytest.raises(ValueError, match="holds no probe"):
        show_probe(catalogue_device("l4"))
