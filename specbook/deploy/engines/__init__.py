"""One module for each engine; each was written against the engine's own source, which it names."""

from __future__ import annotations

from collections.abc import Callable

from specbook.checks import BadInput
from specbook.deploy.deployment import Deployment, Plan
from specbook.deploy.engines import aiconfigurator, dynamo, llama_cpp, sglang, tensorrt_llm, vllm

Deploy = Callable[[Plan, str | None], Deployment]


def _without_file(deploy: Callable[[Plan], Deployment]) -> Deploy:
    """For an engine whose command line names no file of ours."""
    return lambda plan, _: deploy(plan)


_DEPLOYMENTS: dict[str, Deploy] = {
    vllm.NAME: _without_file(vllm.deploy),
    sglang.NAME: sglang.deploy,
    llama_cpp.NAME: _without_file(llama_cpp.deploy),
    tensorrt_llm.NAME: tensorrt_llm.deploy,
    dynamo.NAME: _without_file(dynamo.deploy),
    aiconfigurator.NAME: _without_file(aiconfigurator.deploy),
}
_REHEARSALS: dict[str, Deploy] = {
    vllm.NAME: _without_file(vllm.rehearse),
    sglang.NAME: _without_file(sglang.rehearse),
    llama_cpp.NAME: _without_file(llama_cpp.rehearse),
    tensorrt_llm.NAME: tensorrt_llm.rehearse,
}
ENGINES = tuple(_DEPLOYMENTS)


def deploy_to(engine: str, plan: Plan, config_file: str | None = None) -> Deployment:
    """The plan in the words of an engine.

    Parameters
    ----------
    engine : str
        One of :data:`ENGINES`.
    plan : Plan
    config_file : str or None
        Where the configuration will lie, for engines whose command line names it.

    Raises
    ------
    BadInput
        If the engine is not known, or cannot be told the plan.

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> deploy_to("vllm", example_plan()).payload["num_speculative_tokens"]
    4
    """
    _check_can(engine, plan)
    return _DEPLOYMENTS[engine](plan, config_file)


def rehearse_on(engine: str, plan: Plan, config_file: str | None = None) -> Deployment:
    """The plan with acceptance by chance, where the engine can.

    Parameters
    ----------
    engine : str
        One of :data:`ENGINES`.
    plan : Plan
    config_file : str or None
        Where the configuration will lie, for engines whose command line names it.

    Raises
    ------
    BadInput
        If the engine is not known, cannot be told the plan, or samples acceptance anyway.

    Examples
    --------
    >>> from specbook.deploy.example import example_plan
    >>> rehearse_on("vllm", example_plan()).payload["rejection_sample_method"]
    'synthetic'
    """
    _check_can(engine, plan)
    if engine not in _REHEARSALS:
        remedy = f"leave --rehearsal out, or rehearse on {', '.join(_REHEARSALS)}"
        raise BadInput("is a simulator, which samples acceptance anyway", field="--engine", value=engine, remedy=remedy)
    return _REHEARSALS[engine](plan, config_file)


def _check_can(engine: str, plan: Plan) -> None:
    check_engine(engine)
    if len(plan.schedules) > 1 and engine != vllm.NAME:
        raise BadInput("has no table by context", field="--engine", value=engine, remedy="leave --by-context out")


def check_engine(engine: str) -> None:
    """Raise :class:`BadInput` if nobody wrote a module for the engine.

    Examples
    --------
    >>> check_engine("vllm")
    """
    if engine not in ENGINES:
        raise BadInput(
            "is no engine that is known", field="--engine", value=engine, remedy=f"one of {', '.join(ENGINES)}"
        )
