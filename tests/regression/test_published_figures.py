"""Published figures stay as they were transcribed: a digest of each source, and a look at every change.

After a correction: ``python -m tests.regression.test_published_figures`` prints the digests anew.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from specbook.acceptance.library.published import published_sources, published_table

DIGESTS = Path(__file__).with_name("published_figures.json")
# Words may be improved; these are the figures, and what they are figures of.
WORDS = ("run", "setting")


def digest(key: str) -> str:
    """Of every figure and label of a source."""
    rows = published_table(key).drop(WORDS).to_dicts()
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("key", sorted(published_sources()))
def test_published_figures_are_as_transcribed(key: str) -> None:
    assert digest(key) == json.loads(DIGESTS.read_text(encoding="utf-8"))[key]


if __name__ == "__main__":
    DIGESTS.write_text(json.dumps({key: digest(key) for key in sorted(published_sources())}, indent=1) + "\n")
