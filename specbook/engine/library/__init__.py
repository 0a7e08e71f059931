"""The small models that ship with specbook: a target, a draft model, an EAGLE-like head, Medusa-like heads and exits.

They are trained by :mod:`specbook.training`; ``weights/MODEL_CARD.md`` says on what, how, and what they cannot do.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from specbook.engine.cost_dial import replicate_feed_forward
from specbook.engine.tokenizer import Tokenizer, read_tokenizer
from specbook.engine.transformer import Transformer
from specbook.engine.weights import StoredWeights, check_shapes, read_weights, stored_spec

FOLDER = Path(__file__).parent / "weights"
END_OF_TEXT = 1023

SHA256 = {
    "bpe1024.json": "a55246352b3b36889f102270eaae07989e1a2df129eee725aa33fe868628663a",
    "draft.safetensors": "d5e9a687bebeb38b2dacdc32539256209da103489b870357f92b79b173afd0d6",
    "eagle.safetensors": "de80da57c659c6f8bab8bf98fa86a8cb442b5c5dbf9623e182086c476ee37deb",
    "medusa.safetensors": "dbfa1fe996f55d4f58862ceb098bf9687538758badda76312aae8141132614b0",
    "target.safetensors": "4cf64c9ee4b13209dd221b92ab131e78011fc18d8c22b84cdfc64e95b74c5ab5",
}


@lru_cache
def stored(name: str) -> StoredWeights:
    """Weights of ``target``, ``draft``, ``eagle`` or ``medusa``, checked against their SHA-256.

    They are read once and shared by all models, so that nothing may write to them.

    Examples
    --------
    >>> stored("draft").kind
    'transformer'
    """
    file = f"{name}.safetensors"
    weights = read_weights(FOLDER / file, SHA256[file])
    for values in weights.tensors.values():
        values.flags.writeable = False
    return weights


@lru_cache
def tokenizer() -> Tokenizer:
    """The tokenizer of all shipped models.

    Examples
    --------
    >>> tokenizer().decode(tokenizer().encode("def area(width):"))
    'def area(width):'
    """
    return read_tokenizer(FOLDER / "bpe1024.json", SHA256["bpe1024.json"])


def load_target(arithmetic: str = "exact", replication: int = 1) -> Transformer:
    """The target of 6.7 million parameters.

    Parameters
    ----------
    arithmetic : str
        ``exact``, ``fast``, ``ref64`` or ``naive``.
    replication : int
        The cost dial R: how often the feed-forward weights are repeated. See :mod:`specbook.engine.cost_dial`.

    Examples
    --------
    >>> load_target().spec.n_layers
    4
    """
    return _transformer("target", arithmetic, replication)


def load_draft(arithmetic: str = "exact") -> Transformer:
    """The draft model of 0.5 million parameters, distilled from the target.

    Examples
    --------
    >>> load_draft().spec.n_parameters
    500352
    """
    return _transformer("draft", arithmetic, 1)


def _transformer(name: str, arithmetic: str, replication: int) -> Transformer:
    weights = stored(name)
    spec = stored_spec(weights, name)
    check_shapes(weights.tensors, spec.shapes(), name)
    return Transformer(*replicate_feed_forward(spec, weights.tensors, replication), arithmetic)
