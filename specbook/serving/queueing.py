"""Queues that have a formula: what a simulator of serving must meet before anyone believes it elsewhere.

Arrivals are Poisson in all of them but :func:`lindley_wait_s`, which holds on any sample path, float for float.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import exprel

from specbook.checks import (
    Floats,
    check_counts,
    check_draft_axis,
    check_finite,
    check_non_negative,
    check_positive,
    check_probability,
)

# Rounding in a second moment that was summed up elsewhere, or in a distribution that should sum to 1.
_ROUNDING = 1e-9


def _load(arrivals_per_s: ArrayLike, mean_service_s: ArrayLike, n_servers: int = 1) -> Floats:
    """Share of the time that a server works; a queue settles only below 1."""
    arrivals = check_non_negative("arrivals_per_s", arrivals_per_s)
    load = np.asarray(arrivals * check_non_negative("mean_service_s", mean_service_s) / n_servers)
    if np.any(load >= 1.0):
        raise ValueError(
            f"load (arrivals × service time ÷ servers) must be below 1, or the queue grows for ever; got {load.max()}"
        )
    return load


def md1_wait_s(arrivals_per_s: ArrayLike, service_s: ArrayLike) -> Floats:
    r"""Mean wait before service of one server that takes equally long over every request.

    Parameters
    ----------
    arrivals_per_s : (...) array_like of float
        Rate of the Poisson arrivals, at least 0.
    service_s : (...) array_like of float
        Seconds of every service, at least 0.

    Returns
    -------
    (...) ndarray of float64
        Seconds.

    Raises
    ------
    ValueError
        If an argument is negative or not finite, or the load reaches 1.

    Notes
    -----
    .. math:: W = \frac{\rho S}{2 (1 - \rho)}, \qquad \rho = \lambda S

    A serving engine is this queue with one request at a time, served in order of arrival, and all of one length.

    References
    ----------
    kleinrock1975, section 5.7

    Examples
    --------
    >>> print(md1_wait_s([0.0, 1.0, 1.6], 0.5))
    [0.   0.25 1.  ]
    """
    return mg1_wait_s(arrivals_per_s, service_s, np.square(check_non_negative("service_s", service_s)))


def mg1_wait_s(arrivals_per_s: ArrayLike, mean_service_s: ArrayLike, second_moment_s2: ArrayLike) -> Floats:
    r"""Mean wait before service of one server whose service times vary: Pollaczek and Khinchine.

    Parameters
    ----------
    arrivals_per_s : (...) array_like of float
        Rate of the Poisson arrivals, at least 0.
    mean_service_s : (...) array_like of float
        Mean service time in seconds, at least 0.
    second_moment_s2 : (...) array_like of float
        Mean of the squared service time, in seconds squared; at least the square of the mean.

    Returns
    -------
    (...) ndarray of float64
        Seconds.

    Raises
    ------
    ValueError
        If an argument is negative or not finite, the load reaches 1, or no service time has such moments.

    Notes
    -----
    .. math:: W = \frac{\lambda \, E[S^2]}{2 (1 - \rho)}, \qquad \rho = \lambda E[S]

    Service times are independent of each other and of the arrivals; requests are served one at a time in order.

    References
    ----------
    kleinrock1975, section 5.6

    Examples
    --------
    Exponential service has a second moment of twice the square of its mean, and waits twice as long as equal service:

    >>> print(mg1_wait_s(1.0, 0.5, 0.5), mg1_wait_s(1.0, 0.5, 0.25))
    0.5 0.25
    """
    load = _load(arrivals_per_s, mean_service_s)
    second = check_non_negative("second_moment_s2", second_moment_s2)
    if np.any(second < np.square(np.asarray(mean_service_s)) * (1.0 - _ROUNDING)):
        raise ValueError("second_moment_s2 must be at least mean_service_s squared; pass the mean of the squares")
    return np.asarray(np.asarray(arrivals_per_s) * second / (2.0 * (1.0 - load)))


def erlang_c_wait_s(arrivals_per_s: ArrayLike, mean_service_s: ArrayLike, n_servers: int) -> Floats:
    r"""Mean wait before service in one queue in front of several servers with exponential service times.

    Exact only for servers that take one request each, and are given the head of one common queue as they become free.
    A batching engine is no such system: its requests start at the end of an iteration, and slow each other down.

    Parameters
    ----------
    arrivals_per_s : (...) array_like of float
        Rate of the Poisson arrivals, at least 0.
    mean_service_s : (...) array_like of float
        Mean of the exponential service time in seconds, at least 0.
    n_servers : int
        Number of servers, at least 1.

    Returns
    -------
    (...) ndarray of float64
        Seconds, averaged over all requests, those that need not wait included.

    Raises
    ------
    ValueError
        If an argument is negative, not finite or no count, or the load of each server reaches 1.

    Notes
    -----
    With the offered load :math:`a = \lambda S`, the loss :math:`B` follows from that with one server fewer:

    .. math:: B_0 = 1, \quad B_k = \frac{a B_{k-1}}{k + a B_{k-1}}, \quad
              C = \frac{B_c}{1 - \rho (1 - B_c)}, \quad W = \frac{C S}{c (1 - \rho)}, \quad \rho = a / c

    References
    ----------
    kleinrock1975, section 3.5

    Examples
    --------
    >>> print(erlang_c_wait_s(1.0, 0.5, 1), erlang_c_wait_s(2.0, 0.5, 2).round(4))
    0.5 0.1667
    """
    servers = int(check_counts("n_servers", n_servers, minimum=1))
    load = _load(arrivals_per_s, mean_service_s, servers)
    loss = np.ones_like(load)
    for k in range(1, servers + 1):
        loss = load * servers * loss / (k + load * servers * loss)
    waits = loss / (1.0 - load * (1.0 - loss))
    return np.asarray(waits * np.asarray(mean_service_s) / (servers * (1.0 - load)))


def round_count_moments(tokens_distribution: ArrayLike, n_tokens: int) -> tuple[Floats, Floats]:
    r"""First and second moment of the number of rounds that emit 0, 1, … ``n_tokens`` tokens, the last one cut.

    Parameters
    ----------
    tokens_distribution : (..., draft_length + 1) array_like of float
        Entry ``j`` is the probability that a round yields ``j + 1`` tokens, as
        :func:`specbook.acceptance.yields.tokens_distribution` gives it; each row sums to 1.
    n_tokens : int
        Tokens to emit, at least 0; what the prefill emits is not among them.

    Returns
    -------
    mean, second : (..., n_tokens + 1) ndarray of float64
        Moments at every number of tokens from 0 to ``n_tokens``.

    Raises
    ------
    ValueError
        If the distribution is none, or ``n_tokens`` is negative or not whole.

    Notes
    -----
    .. math:: E_d = 1 + \sum_j P(A = j) \, E_{\max(0, d-j)}, \qquad
              E^{(2)}_d = 1 + \sum_j P(A = j) \left(2 E + E^{(2)}\right)_{\max(0, d-j)}

    Rounds are taken to be independent and alike.

    References
    ----------
    leviathan2023 for the law of one round; the recursion is renewal theory.

    Examples
    --------
    >>> from specbook.acceptance.yields import tokens_distribution
    >>> mean, second = round_count_moments(tokens_distribution([0.8] * 4), 64)
    >>> print(mean[64].round(3), (second - mean**2)[64].round(3))
    19.504 4.458
    """
    probability = check_draft_axis("tokens_distribution", check_probability("tokens_distribution", tokens_distribution))
    if not probability.shape[-1] or np.any(np.abs(probability.sum(axis=-1) - 1.0) > _ROUNDING):
        raise ValueError("tokens_distribution must sum to 1 along its last axis; pass one entry a number of tokens")
    tokens = int(check_counts("n_tokens", n_tokens))
    mean, second = np.zeros((2, *probability.shape[:-1], tokens + 1))
    for emitted in range(1, tokens + 1):
        remaining = np.maximum(0, emitted - np.arange(1, probability.shape[-1] + 1))
        before = mean[..., remaining]
        mean[..., emitted] = 1.0 + (probability * before).sum(axis=-1)
        second[..., emitted] = 1.0 + (probability * (2.0 * before + second[..., remaining])).sum(axis=-1)
    return mean, second


def speculative_service_moments_s(
    prefill_s: ArrayLike, round_s: ArrayLike, rounds_mean: ArrayLike, rounds_second: ArrayLike
) -> tuple[Floats, Floats]:
    r"""First and second moment of the time one request holds a server: its prefill and a random number of rounds.

    Parameters
    ----------
    prefill_s, round_s : (...) array_like of float
        Seconds of the prefill and of one round, each the same for every request; at least 0.
    rounds_mean, rounds_second : (...) array_like of float
        Moments of the number of rounds, as :func:`round_count_moments` gives them.

    Returns
    -------
    mean_s, second_moment_s2 : (...) ndarray of float64
        Seconds, and seconds squared.

    Raises
    ------
    ValueError
        If an argument is negative or not finite.

    Notes
    -----
    .. math:: S = t_p + N t_r, \qquad E[S^2] = t_p^2 + 2 t_p t_r E[N] + t_r^2 E[N^2]

    References
    ----------
    kleinrock1975, section 5.6, is what they are for.

    Examples
    --------
    >>> mean, second = speculative_service_moments_s(1.0, 2.0, 3.0, 10.0)
    >>> print(mean, second)
    7.0 53.0
    """
    prefill, step = check_non_negative("prefill_s", prefill_s), check_non_negative("round_s", round_s)
    rounds = step * check_non_negative("rounds_mean", rounds_mean)
    squared = np.square(step) * check_non_negative("rounds_second", rounds_second)
    return np.asarray(prefill + rounds), np.asarray(np.square(prefill) + 2.0 * prefill * rounds + squared)


def batching_wait_s(arrivals_per_s: ArrayLike, iteration_s: ArrayLike, iterations_per_request: ArrayLike) -> Floats:
    r"""Mean wait for the first iteration under continuous batching without a cap, all iterations equally long.

    Parameters
    ----------
    arrivals_per_s : (...) array_like of float
        Rate of the Poisson arrivals, at least 0.
    iteration_s : (...) array_like of float
        Seconds of an iteration, greater than 0, whatever the batch.
    iterations_per_request : (...) array_like of int
        Iterations that every request takes part in, at least 1.

    Returns
    -------
    (...) ndarray of float64
        Seconds, below half an iteration.

    Raises
    ------
    ValueError
        If an argument is out of range or not finite.

    Notes
    -----
    A request that finds the engine idle starts at once, any other one at the next end of an iteration. The engine falls
    idle when nobody came during :math:`m` iterations in a row, each of which is free of arrivals with probability
    :math:`p_0 = e^{-\lambda \tau}`; the mean wait for such a run is

    .. math:: E = \frac{1 - p_0^m}{p_0^m (1 - p_0)}, \qquad
              P(\text{busy}) = \frac{E \tau}{E \tau + 1/\lambda}, \qquad W = P(\text{busy}) \, \tau / 2

    since Poisson arrivals see time averages, and fall anywhere in an iteration. No load is too high: the batch has no
    cap. Computed without cancellation at small :math:`\lambda \tau`, and without overflow at large ones.

    References
    ----------
    wolff1982 for arrivals and averages; the rest is derived above.

    Examples
    --------
    >>> print(1e3 * batching_wait_s([0.0, 1.0, 100.0], 0.02, 50).round(6))
    [ 0.     6.344 10.   ]
    """
    load = check_non_negative("arrivals_per_s", arrivals_per_s) * check_positive("iteration_s", iteration_s)
    iterations = check_counts("iterations_per_request", iterations_per_request, minimum=1)
    busy = -np.expm1(-load * iterations) / exprel(-load)  # both sides of busy : idle times p0 ** m, which stays finite
    share = busy / (busy + np.exp(-load * iterations))
    return np.asarray(share * np.asarray(iteration_s) / 2.0)


def batching_e2e_s(arrivals_per_s: ArrayLike, iteration_s: ArrayLike, iterations_per_request: ArrayLike) -> Floats:
    r"""Mean time from arrival to the last token under the conditions of :func:`batching_wait_s`.

    Parameters
    ----------
    arrivals_per_s, iteration_s, iterations_per_request : (...) array_like
        As in :func:`batching_wait_s`.

    Returns
    -------
    (...) ndarray of float64
        Seconds.

    Raises
    ------
    ValueError
        If an argument is out of range or not finite.

    Notes
    -----
    .. math:: R = W + m \tau

    References
    ----------
    wolff1982

    Examples
    --------
    >>> print(batching_e2e_s(1.0, 0.02, 50).round(6))
    1.006344
    """
    wait = batching_wait_s(arrivals_per_s, iteration_s, iterations_per_request)
    return np.asarray(wait + np.asarray(iterations_per_request) * np.asarray(iteration_s))


def batching_requests_in_system(
    arrivals_per_s: ArrayLike, iteration_s: ArrayLike, iterations_per_request: ArrayLike
) -> Floats:
    r"""Mean number of requests that wait or run under the conditions of :func:`batching_wait_s`.

    Parameters
    ----------
    arrivals_per_s, iteration_s, iterations_per_request : (...) array_like
        As in :func:`batching_wait_s`.

    Returns
    -------
    (...) ndarray of float64
        Requests.

    Raises
    ------
    ValueError
        If an argument is out of range or not finite.

    Notes
    -----
    .. math:: N = \lambda R

    References
    ----------
    little1961

    Examples
    --------
    >>> print(batching_requests_in_system(10.0, 0.02, 50).round(3))
    10.1
    """
    return np.asarray(np.asarray(arrivals_per_s) * batching_e2e_s(arrivals_per_s, iteration_s, iterations_per_request))


def capacity_requests_per_s(
    *,
    max_batch: ArrayLike,
    iteration_s: ArrayLike,
    iterations_per_request: ArrayLike,
    kv_tokens: ArrayLike,
    mean_residence_s: ArrayLike,
    mean_kv_tokens: ArrayLike,
) -> Floats:
    r"""Arrivals that an engine cannot exceed: by its batch, or by its cache.

    Parameters
    ----------
    max_batch : (...) array_like of int
        Requests that run at once at most, at least 1.
    iteration_s : (...) array_like of float
        Seconds of an iteration with ``max_batch`` requests.
    iterations_per_request : (...) array_like of float
        Mean number of iterations that a request takes part in.
    kv_tokens : (...) array_like of int
        Tokens that the cache holds, at least 1.
    mean_residence_s : (...) array_like of float
        Mean time that a request holds cache, in seconds.
    mean_kv_tokens : (...) array_like of float
        Tokens that it holds, averaged over that time.

    Returns
    -------
    (...) ndarray of float64
        Requests per second; throughput stays at or below it, and beyond it the queue grows.

    Raises
    ------
    ValueError
        If an argument is not positive, not finite or no count.

    Notes
    -----
    .. math:: \lambda \le \min\left( \frac{c}{\tau(c)\,m}, \; \frac{M}{E[R] \, E[k]} \right)

    The first bound needs that larger batches yield more requests per second; the second is Little's law for cached
    tokens. Where requests that stay longer also hold more, the mean of the products is above the product of the
    means, and the true bound is below this one.

    References
    ----------
    little1961

    Examples
    --------
    >>> engine = dict(max_batch=16, iteration_s=0.02, iterations_per_request=100, mean_residence_s=2.0)
    >>> print(capacity_requests_per_s(kv_tokens=[32_000, 8_000], mean_kv_tokens=1_000, **engine))
    [8. 4.]
    """
    batch = check_counts("max_batch", max_batch, minimum=1)
    busy_s = check_positive("iteration_s", iteration_s) * check_positive(
        "iterations_per_request", iterations_per_request
    )
    held = check_positive("mean_residence_s", mean_residence_s) * check_positive("mean_kv_tokens", mean_kv_tokens)
    return np.asarray(np.minimum(batch / busy_s, check_counts("kv_tokens", kv_tokens, minimum=1) / held))


def lindley_wait_s(arrival_s: ArrayLike, service_s: ArrayLike) -> Floats:
    r"""Wait of each request in front of one server that serves in order of arrival, on one sample path.

    Parameters
    ----------
    arrival_s : (n,) array_like of float
        Times of arrival in seconds, never falling.
    service_s : (n,) array_like of float
        Seconds of each service, at least 0.

    Returns
    -------
    (n,) ndarray of float64
        Seconds from arrival to start.

    Raises
    ------
    ValueError
        If the shapes differ, an entry is not finite, arrivals fall or a service is negative.

    Notes
    -----
    .. math:: b_n = \max(a_n, e_{n-1}), \qquad e_n = b_n + S_n, \qquad W_n = b_n - a_n

    Three operations in this order, each rounded once, so that a simulator with the same order gives equal floats.

    References
    ----------
    lindley1952

    Examples
    --------
    >>> print(lindley_wait_s([0.0, 1.0, 5.0], [3.0, 1.5, 1.0]))
    [0. 2. 0.]
    """
    arrivals, services = check_finite("arrival_s", arrival_s), check_non_negative("service_s", service_s)
    if arrivals.ndim != 1 or arrivals.shape != services.shape:
        raise ValueError(f"arrival_s and service_s need one entry a request; got {arrivals.shape} and {services.shape}")
    if np.any(np.diff(arrivals) < 0.0):
        raise ValueError("arrival_s must not fall; sort the requests by their arrival")
    starts, end = [], -np.inf
    for arrival, service in zip(arrivals.tolist(), services.tolist(), strict=True):
        start = max(arrival, end)
        end = start + service
        starts.append(start)
    return np.asarray(starts, dtype=np.float64) - arrivals
