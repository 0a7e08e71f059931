"""A scratch model in torch, for devices: the engine's layers with random bfloat16 weights over a cache that is full.

Torch is an argument here; :mod:`specbook.hardware.probe.torch_device` imports it.
"""

from __future__ import annotations

from typing import Any

from specbook.engine.transformer_spec import TransformerSpec
from specbook.hardware.probe.backend import Work
from specbook.hardware.probe.models import ROOM_TOKENS, Heads

_SPREAD = 0.02


def random_tensor(torch: Any, shape: tuple[int, ...], device: str) -> Any:
    """Small random numbers in bfloat16."""
    return _SPREAD * torch.randn(shape, dtype=torch.bfloat16, device=device)


def attend(torch: Any, queries: Any, keys: Any, values: Any) -> Any:
    """Attention of new rows over the cache, heads that share keys together.

    New rows see one another, which costs what a causal mask among a few of them would, and keeps the kernels that read
    the cache once.

    Parameters
    ----------
    queries : (batch, n_heads, rows, head_size) tensor
    keys, values : (batch, n_kv_heads, context + rows, head_size) tensor
    """
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, enable_gqa=True)


class TorchModel:
    """A decoder with tied embedding whose cache is given.

    Parameters
    ----------
    torch : module
    spec : TransformerSpec
    device : str
    """

    def __init__(self, torch: Any, spec: TransformerSpec, device: str) -> None:
        self._torch, self.spec = torch, spec
        self._heads = Heads(n_heads=spec.n_heads, n_kv_heads=spec.n_kv_heads, head_size=spec.head_size)
        shapes = spec.shapes()
        self._tensors = {name: random_tensor(torch, shape, device) for name, shape in shapes.items()}
        angles = (spec.max_context, 1, spec.head_size)
        self._cos, self._sin = random_tensor(torch, angles, device), random_tensor(torch, angles, device)

    def pass_work(self, keys: Any, values: Any, batch: int, context: int, width: int) -> Work:
        """One pass of ``width`` rows of each sequence behind ``context`` tokens, head included.

        Parameters
        ----------
        keys, values : (n,) tensor
            Long enough for the model's cache.
        batch, context, width : int
        """
        spec, capacity = self.spec, context + ROOM_TOKENS
        shape = (spec.n_layers, batch, spec.n_kv_heads, capacity, spec.head_size)
        n_values = spec.n_layers * batch * self._heads.kv_values_per_token * capacity
        caches = keys[:n_values].reshape(shape), values[:n_values].reshape(shape)
        rows = self._tensors["embedding"][: batch * width].reshape(batch, width, spec.n_embedding)
        return lambda: self._pass(rows, caches, context)

    def _pass(self, rows: Any, caches: tuple[Any, Any], context: int) -> Any:
        linear = self._torch.nn.functional.linear
        for layer in range(self.spec.n_layers):
            part = {name.rpartition(".")[2]: tensor for name, tensor in self._of_layer(layer)}
            product = linear(self._norm(rows, part["attention_norm"]), part["query_key_value"])
            mixed = self._attention(product, caches[0][layer], caches[1][layer], context)
            rows = rows + linear(mixed, part["attention_output"])
            gate, up = linear(self._norm(rows, part["feed_forward_norm"]), part["gate_up"]).chunk(2, -1)
            rows = rows + linear(self._torch.nn.functional.silu(gate) * up, part["down"])
        return linear(self._norm(rows, self._tensors["final_norm"]), self._tensors["embedding"])

    def _of_layer(self, layer: int) -> list[tuple[str, Any]]:
        prefix = f"layers.{layer}."
        return [(name, tensor) for name, tensor in self._tensors.items() if name.startswith(prefix)]

    def _norm(self, rows: Any, weight: Any) -> Any:
        return self._torch.nn.functional.rms_norm(rows, (self.spec.n_embedding,), weight, self.spec.norm_epsilon)

    def _attention(self, product: Any, keys: Any, values: Any, context: int) -> Any:
        """Write the new rows into the cache of a layer and attend to all of it."""
        batch, width, _ = product.shape
        heads, end = self._heads, context + width
        split = product.reshape(batch, width, heads.n_heads + 2 * heads.n_kv_heads, heads.head_size)
        turned = self._rotated(split[:, :, : heads.n_heads + heads.n_kv_heads], context)
        keys[:, :, context:end] = turned[:, :, heads.n_heads :].swapaxes(1, 2)
        values[:, :, context:end] = split[:, :, heads.n_heads + heads.n_kv_heads :].swapaxes(1, 2)
        queries = turned[:, :, : heads.n_heads].swapaxes(1, 2)
        mixed = attend(self._torch, queries, keys[:, :, :end], values[:, :, :end])
        return mixed.swapaxes(1, 2).reshape(batch, width, heads.n_heads * heads.head_size)

    def _rotated(self, heads: Any, context: int) -> Any:
        positions = slice(context, context + heads.shape[1])
        first, second = heads.chunk(2, -1)
        turned = self._torch.cat((second, first), -1)
        return heads * self._cos[positions] + turned * self._sin[positions]
