"""Whether weights and caches of a setting fit into its devices: a row that says otherwise says something else wrong."""

from __future__ import annotations

from functools import lru_cache

from specbook.roofline.model_spec import ModelSpec
from specbook.roofline.pass_cost import step_cost
from specbook.validation.settings import Setting


@lru_cache(maxsize=1024)
def _bytes_of(target: ModelSpec, precision: str, n_devices: int) -> tuple[float, float]:
    """Weights on one device, and keys and values of one token."""
    per_token = step_cost(target, precision, tensor_parallel=n_devices).kv_bytes_per_token
    return target.weight_bytes(precision) / n_devices, per_token


def beyond_memory(setting: Setting) -> str | None:
    """A clause where the target's weights and its cache would not fit; None where they do.

    Parameters
    ----------
    setting : Setting
        With a number of devices.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from specbook.validation.settings import example_setting
    >>> print(beyond_memory(example_setting()))
    None
    >>> beyond_memory(replace(example_setting(), batch=4096))
    'weights and cache need 291 GB of the 141 GB of a device'
    """
    weights, per_token = _bytes_of(setting.target, setting.precision, setting.n_devices or 1)
    needed, there = weights + per_token * setting.batch * setting.context_tokens, setting.device.memory_bytes.value
    if needed <= there:
        return None
    return f"weights and cache need {needed / 1e9:,.0f} GB of the {there / 1e9:,.0f} GB of a device"
