"""environment.yml, pyproject.toml and requirements.lock say the same; the lock can be installed anywhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
TRAIN_LOCK = (ROOT / "requirements-train.lock").read_text(encoding="utf-8")
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+?)(?: ; (?P<marker>.+?))? \\$", re.MULTILINE)


def project_requirements(*, training: bool = False) -> dict[str, SpecifierSet]:
    """All requirements; torch, which weighs gigabytes, has a lock of its own."""
    extras = [texts for name, texts in PROJECT["optional-dependencies"].items() if training or name != "train"]
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]
    found = {canonicalize_name(r.name): r.specifier for r in map(Requirement, texts)}
    return found | {"python": SpecifierSet(PROJECT["requires-python"])}


def conda_requirements() -> dict[str, SpecifierSet]:
    document = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    texts: list[str] = []
    for entry in document["dependencies"]:
        texts += entry["pip"] if isinstance(entry, dict) else [entry]
    requirements = (Requirement(text) for text in texts if not text.startswith("-e") and text != "pip")
    return {canonicalize_name(r.name): r.specifier for r in requirements}


def test_environment_yml_equals_pyproject() -> None:
    assert conda_requirements() == project_requirements()


def test_lock_satisfies_every_requirement_on_every_python() -> None:
    for version in ("3.11", "3.12", "3.13"):
        for text, training in ((LOCK, False), (TRAIN_LOCK, True)):
            pins = _pins(text, version)
            for name, specifier in project_requirements(training=training).items():
                if name != "python":
                    assert specifier.contains(pins[name]), (name, pins[name], version)


def test_both_locks_pin_the_same_versions() -> None:
    pins, of_training = _pins(LOCK, "3.12"), _pins(TRAIN_LOCK, "3.12")
    assert {name: of_training[name] for name in pins} == pins


def _pins(text: str, version: str) -> dict[str, str]:
    environment = default_environment() | {"python_version": version, "python_full_version": f"{version}.0"}
    pins = {}
    for match in PIN.finditer(text):
        requirement = Requirement(f"{match['name']}; {match['marker']}" if match["marker"] else match["name"])
        if requirement.marker is None or requirement.marker.evaluate(environment):
            pins[canonicalize_name(match["name"])] = match["version"]
    return pins


def test_lock_has_a_hash_for_every_pin_and_names_no_host() -> None:
    smollm = (ROOT / "requirements-smollm.lock").read_text(encoding="utf-8")
    for text, fewest in ((LOCK, 100), (TRAIN_LOCK, 100), (smollm, 1)):
        blocks = re.split(r"\n(?=[A-Za-z0-9])", text.strip())
        assert len(blocks) >= fewest
        assert all("--hash=sha256:" in block for block in blocks)
        assert "://" not in text
        assert "--index" not in text


def test_contributing_justifies_every_dependency() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for name in project_requirements(training=True):
        assert f"`{name}`" in text, name
