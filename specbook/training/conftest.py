"""Modules that import torch are collected where it is installed: ``make train-check`` runs their examples there."""

from importlib.util import find_spec

_NEED_TORCH = [
    "distil.py",
    "evaluation.py",
    "optimizers.py",
    "reference.py",
    "stages.py",
    "torch_model.py",
    "train_target.py",
]

collect_ignore = _NEED_TORCH if find_spec("torch") is None else []
