"""Engines as people write them: "llama.cpp cuda", "TRT-LLM", "vLLM 0.11"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specbook.names.text import loosened, question, unreadable

_ENGINES = {
    "vllm": r"vllm(?! ?(?:mlx|metal))",
    "sglang": r"sglang|sgl",
    "llama.cpp": r"llama ?\.? ?cpp|llama (?:server|speculative|cli|bench|batched bench)",
    "tensorrt-llm": r"tensorrt ?(?:llm)?|trt ?llm",
    "mlx": r"mlx(?: ?lm)?|vllm (?:mlx|metal)",
    "imp": r"imp",
    "transformers": r"transformers|hugging ?face|hf",
    "native": r"native|specbook",
    "lmdeploy": r"lmdeploy",
    "exllama": r"exllama ?(?:v\d)?",
    "ik_llama.cpp": r"ik llama(?:\.cpp)?",
    "ollama": r"ollama",
    "lm studio": r"lm ?studio",
    "koboldcpp": r"kobold ?cpp",
}
_PATTERNS = {name: re.compile(rf"(?<![\w.])(?:{words})(?:v?\d[\w.]*)?(?!\w)") for name, words in _ENGINES.items()}
_BACKENDS = ("cuda", "vulkan", "metal", "rocm", "cpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineName:
    """What a text says about the engine that ran a model.

    Attributes
    ----------
    text : str
        As written.
    engine : str or None
        ``vllm``, ``sglang``, ``llama.cpp``, ``tensorrt-llm``, ``mlx`` and others; None if unclear.
    backend : str or None
        ``cuda``, ``vulkan``, ``metal``, ``rocm`` or ``cpu``, where the text says so.
    understood : str
        In one line.
    question : str or None
        Why it is unclear; None if it is clear.
    """

    text: str
    engine: str | None
    backend: str | None
    understood: str
    question: str | None


def engine_name(text: str) -> EngineName:
    """Resolve an engine's name, or ask.

    Examples
    --------
    >>> engine_name("llama.cpp vulkan").engine, engine_name("llama.cpp vulkan").backend
    ('llama.cpp', 'vulkan')
    >>> print(engine_name("not recorded").question)
    'not recorded' is not recorded: state --engine with one of vllm, sglang, llama.cpp, tensorrt-llm, mlx
    """
    problem = unreadable(text)
    loose = "" if problem else loosened(text)
    backend = next((each for each in _BACKENDS if re.search(rf"\b{each}\b", loose)), None)
    found = [name for name, pattern in _PATTERNS.items() if pattern.search(loose)]
    if "ik_llama.cpp" in found:
        found = [name for name in found if name != "llama.cpp"]
    if len(found) == 1:
        understood = found[0] + (f" on {backend}" if backend else "")
        return EngineName(text=text, engine=found[0], backend=backend, understood=understood, question=None)
    why = problem or ("names several engines" if found else "is no engine that specbook knows")
    known = found or list(_ENGINES)[:5]
    asked = question(text, why, f"state --engine with one of {', '.join(known)}")
    return EngineName(text=text, engine=None, backend=backend, understood="no engine", question=asked)
