"""Muon for the matrices inside the layers, AdamW for embeddings and norms."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from specbook.training.torch_model import Tensors

_QUINTIC = (3.4445, -4.7750, 2.0315)
_ADAMW_BETAS = (0.9, 0.95)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Rates of the two optimizers at their highest.

    Parameters
    ----------
    muon_rate, adamw_rate : float
    momentum : float
        Of Muon.
    weight_decay : float
        Of Muon, times its rate; AdamW has none.
    """

    muon_rate: float = 0.02
    adamw_rate: float = 3e-3
    momentum: float = 0.95
    weight_decay: float = 0.05


class MuonAndAdamW:
    """One optimizer over named tensors.

    Parameters
    ----------
    tensors : dict of str to tensor
        Leaves that require gradients, updated in place.
    config : OptimizerConfig

    References
    ----------
    jordan2024
    """

    def __init__(self, tensors: Tensors, config: OptimizerConfig) -> None:
        self._config, self._tensors = config, tensors
        self._matrices = {name: tensor for name, tensor in tensors.items() if _is_inner_matrix(name, tensor)}
        self._momenta = {name: torch.zeros_like(tensor) for name, tensor in self._matrices.items()}
        others = [tensor for name, tensor in tensors.items() if name not in self._matrices]
        self._adamw = torch.optim.AdamW(others, lr=config.adamw_rate, betas=_ADAMW_BETAS, weight_decay=0.0)

    def step(self, rate_factor: float) -> None:
        """Update every tensor from its gradient, at ``rate_factor`` of the highest rate, and clear the gradients."""
        for group in self._adamw.param_groups:
            group["lr"] = self._config.adamw_rate * rate_factor
        self._adamw.step()
        with torch.no_grad():
            for name, matrix in self._matrices.items():
                self._step_muon(name, matrix, self._config.muon_rate * rate_factor)
        for tensor in self._tensors.values():
            tensor.grad = None

    def _step_muon(self, name: str, matrix: torch.Tensor, rate: float) -> None:
        momentum = self._momenta[name].lerp_(matrix.grad, 1.0 - self._config.momentum)
        update = matrix.grad.lerp(momentum, self._config.momentum)
        blocks = update.chunk(2) if name.endswith("gate_up") else [update]
        direction = torch.cat([_direction(block) for block in blocks])
        matrix.mul_(1.0 - rate * self._config.weight_decay).sub_(rate * direction)


def _is_inner_matrix(name: str, tensor: torch.Tensor) -> bool:
    return tensor.dim() == 2 and not name.endswith(("embedding", "head"))


def _direction(update: torch.Tensor) -> torch.Tensor:
    """The update made orthogonal, and larger for a tall matrix, so that its effect does not depend on its shape."""
    n_out, n_in = update.shape
    return orthogonalised(update) * max(1.0, n_out / n_in) ** 0.5


def orthogonalised(matrix: torch.Tensor, n_steps: int = 5) -> torch.Tensor:
    r"""The matrix with its singular values brought near 1, by Newton-Schulz steps.

    Parameters
    ----------
    matrix : (n_out, n_in) tensor
    n_steps : int
        Five bring singular values of a normalised matrix to within about 0.7 to 1.2.

    Returns
    -------
    (n_out, n_in) tensor

    Notes
    -----
    .. math:: X \leftarrow a X + (b \, X X^T + c \, (X X^T)^2) X

    References
    ----------
    jordan2024

    Examples
    --------
    >>> values = torch.linalg.svdvals(orthogonalised(torch.diag(torch.tensor([1.0, 0.5, 0.1]))))
    >>> bool(((values > 0.6) & (values < 1.3)).all())
    True
    """
    a, b, c = _QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(n_steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x
