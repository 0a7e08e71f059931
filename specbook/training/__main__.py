"""The recipe, stage by stage, in one folder: ``python -m specbook.training corpus|tokenizer|… --out DIR``.

The shipped models' corpus needs three paths: the sources of the Python documentation (Debian's python3.11-doc), the
Devil's Dictionary (dict-devil) and chatterbot-corpus (PyPI); the standard library is found by itself. ``target`` and
the stages after it need torch.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from specbook.checks import BadInput
from specbook.engine.tokenizer import PIECES
from specbook.training.artefacts import MERGES, TOKENS, read_merges, write_merges
from specbook.training.bpe import N_BYTES, first_texts, learn_merges
from specbook.training.corpus import CorpusSources, collect_sources, read_corpus, write_corpus
from specbook.training.sizes import SIZES
from specbook.training.tokens import encode_corpus, write_tokens

# Characters of each domain from which merges are learned, so that none of them rules the vocabulary.
_CHARACTERS_FOR_MERGES = 1_800_000


def corpus_stage(options: Any) -> None:
    """Write the documents and the card."""
    sources = CorpusSources(
        python_docs=options.python_docs,
        devils_dictionary=options.devils_dictionary,
        chatterbot=options.chatterbot,
        n_mathematics_characters=options.mathematics_characters,
        **({} if options.python_library is None else {"python_library": options.python_library}),
    )
    rng = np.random.default_rng(options.seed)
    card = write_corpus(options.out / "corpus", collect_sources(sources, rng), rng)
    for source in card["sources"]:
        _say(f"{source['name']} ({source['licence']}): {source['documents']:,} documents of {source['domain']}")
    for name, counts in card["files"].items():
        _say(f"{name}: {counts['documents']:,} documents, {counts['characters']:,} characters")


def tokenizer_stage(options: Any) -> None:
    """Learn merges, or take those of ``--merges``, and write the corpus as tokens."""
    corpus = read_corpus(options.out / "corpus")
    merges = read_merges(options.merges) if options.merges else _learned(corpus, options.vocabulary)
    streams = encode_corpus(corpus, merges)
    write_merges(options.out / MERGES, merges)
    write_tokens(options.out / TOKENS, streams)
    for (domain, split), stream in streams.streams.items():
        per_token = streams.token_bytes[stream].mean() if len(stream) else float("nan")
        _say(f"{domain}.{split}: {len(stream):,} tokens of {per_token:.3f} bytes")


def _learned(corpus: dict[tuple[str, str], list[str]], n_vocab: int) -> list[tuple[int, int]]:
    """Merges of a vocabulary whose last token ends a document."""
    training = (texts for (_, split), texts in corpus.items() if split == "train")
    chosen = (text for texts in training for text in first_texts(texts, _CHARACTERS_FOR_MERGES))
    return learn_merges(Counter(piece for text in chosen for piece in PIECES.findall(text)), n_vocab - N_BYTES - 1)


def _with_torch(name: str) -> Callable[[Any], None]:
    """A stage that is imported when it runs, because torch takes seconds to import and need not be there."""

    def stage(options: Any) -> None:
        if find_spec("torch") is None:
            raise BadInput("torch is not installed", field=name, remedy="pip install 'specbook[train]'")
        from specbook.training import stages

        getattr(stages, f"{name}_stage")(options)

    return stage


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specbook.training", description=__doc__)
    stages = parser.add_subparsers(dest="stage", required=True)
    for name, (text, stage, add_options) in _STAGES.items():
        command = stages.add_parser(name, help=text, description=text)
        command.add_argument("--out", type=Path, required=True, help="folder that all stages share")
        command.add_argument("--seed", type=_count, default=0)
        add_options(command)
        command.set_defaults(run=stage)
    return parser


def _corpus_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--python-library", type=Path, help="folder of Python files [the running standard library]")
    command.add_argument("--python-docs", type=Path, help="folder of the documentation's .rst files")
    command.add_argument("--devils-dictionary", type=Path, help="devil.dict.dz")
    command.add_argument("--chatterbot", type=Path, help="data/english of chatterbot-corpus")
    command.add_argument("--mathematics-characters", type=_count, default=3_400_000)


def _tokenizer_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--vocabulary", type=_vocabulary, default=1024, help="tokens, the end token included [1024]")
    command.add_argument("--merges", type=Path, help="merges to use instead of learning them")


def _training_options(n_steps: int) -> Callable[[argparse.ArgumentParser], None]:
    def add(command: argparse.ArgumentParser) -> None:
        command.add_argument("--steps", type=_positive, default=n_steps, help=f"[{n_steps}]")
        command.add_argument("--size", choices=sorted(SIZES), default="shipped")
        command.add_argument("--sequences", type=_positive, default=12, help="sequences a step [12]")
        command.add_argument("--tokens", type=_positive, default=512, help="tokens a sequence [512]")
        command.add_argument("--threads", type=_positive, default=2, help="threads of torch [2]")
        command.add_argument("--report-every", type=_positive, default=50, help="steps between reports [50]")
        command.add_argument("--bfloat16", action="store_true", help="faster only on processors that have it")

    return add


def _weights_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--weights", type=Path, help="folder of the models")


def _count(text: str, minimum: int = 0) -> int:
    if not text.isdecimal() or int(text) < minimum:
        raise argparse.ArgumentTypeError(f"must be whole and at least {minimum}; got {text!r}")
    return int(text)


def _positive(text: str) -> int:
    return _count(text, minimum=1)


def _vocabulary(text: str) -> int:
    return _count(text, minimum=N_BYTES + 1)


_STAGES: dict[str, tuple[str, Callable[[Any], None], Callable[[argparse.ArgumentParser], None]]] = {
    "corpus": ("collect the documents and hold one in twenty out", corpus_stage, _corpus_options),
    "tokenizer": ("learn merges and write the corpus as tokens", tokenizer_stage, _tokenizer_options),
    "target": ("train the target", _with_torch("target"), _training_options(1100)),
    "distil": ("train all drafters on the target's distribution", _with_torch("distil"), _training_options(850)),
    "evaluate": ("bits per byte by domain", _with_torch("evaluate"), _weights_options),
    "reference": ("float64 logits for the engine's tests", _with_torch("reference"), _weights_options),
}


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    """Run one stage; bad input is one line and exit code 2."""
    options = _parser().parse_args()
    try:
        options.run(options)
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
