"""The learning rate over a run, as a factor of its highest value."""

from __future__ import annotations

from specbook.checks import check_counts, check_probability


def rate_factor(step: int, n_steps: int, *, n_warmup: int, decay_share: float) -> float:
    r"""Factor of the learning rate: a linear rise, a plateau, and a linear fall to the end.

    Parameters
    ----------
    step : int
        Steps done before, from 0.
    n_steps, n_warmup : int
        Steps of the run and of the rise, at least 1.
    decay_share : float
        Share of the run in which the rate falls, in (0, 1].

    Returns
    -------
    float
        In (0, 1] for every step before ``n_steps``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    .. math:: \min\left(1, \frac{s + 1}{w}\right) \min\left(1, \frac{n - s}{d\,n}\right)

    Examples
    --------
    >>> [round(rate_factor(step, 10, n_warmup=2, decay_share=0.5), 2) for step in range(10)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2]
    """
    done, total, warmup = (
        int(check_counts(name, value, minimum))
        for name, value, minimum in (("step", step, 0), ("n_steps", n_steps, 1), ("n_warmup", n_warmup, 1))
    )
    if check_probability("decay_share", decay_share) == 0.0:
        raise ValueError("decay_share must be greater than 0; got 0.0")
    return min(1.0, (done + 1) / warmup) * min(1.0, (total - done) / (decay_share * total))
