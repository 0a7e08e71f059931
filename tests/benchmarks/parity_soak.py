"""A million tokens of greedy parity and a pool of 100,000 samples: ``python -m tests.benchmarks.parity_soak [TOKENS]``.

Prints what each gate compared, with its figures as JSON; the exit code is 1 if one failed.
"""

from __future__ import annotations

import json
import sys

from specbook.measuring.subjects import own_prompt_tokens
from specbook.parity.gates import ParityConfig, run_parity
from specbook.parity.report import GATE_NAMES

N_TOKENS = 1_000_000


def main() -> int:
    """Run the gates one by one, so that each is printed as it ends."""
    n_tokens = int(sys.argv[1]) if len(sys.argv) > 1 else N_TOKENS
    passed = True
    for gate in GATE_NAMES:
        report = run_parity(ParityConfig(gates=(gate,), n_tokens=n_tokens), own_prompt_tokens())
        passed = passed and report.passed
        sys.stdout.write(json.dumps(report.to_json()["gates"][0]) + "\n")
        sys.stdout.flush()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
