"""One module for each engine; each was written against the engine's own source, which it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specbook.checks import BadInput
from specbook.deploy.deployment import Deployment, Plan
from specbook.deploy.engines import aiconfigurator, dynamo, llama_cpp, sglang, tensorrt_llm, vllm

ENGINES = (vllm.NAME, sglang.NAME, llama_cpp.NAME, tensorrt_llm.NAME, dynamo.NAME, aiconfigurator.NAME)
_REHEARSALS: dict[str, Callable[[Plan], Deployment]] = {
    vllm.NAME: vllm.rehearse,
    sglang.NAME: sglang.rehearse,
    llama_cpp.NAME: llama_cpp.rehearse,
}
_REHEARSALS_WITH_FILE: dict[str, Callable[[Plan, str | None], Deployment]] = {tensorrt_llm.NAME: tensorrt_llm.rehearse}
_PLAIN: dict[str, Callable[[Plan], Deployment]] = {
    vllm.NAME: vllm.deploy,
    llama_cpp.NAME: llama_cpp.deploy,
    dynamo.NAME: dynamo.deploy,
    aiconfigurator.NAME: aiconfigurator.deploy,
}
_WITH_FILE: dict[str, Callable[[Plan, str | None], Deployment]] = {
    sglang.NAME: sglang.deploy,
    tensorrt_llm.NAME: tensorrt_llm.deploy,
}


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
    return _made(_PLAIN, _WITH_FILE, engine, plan, config_file)


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
    able = (*_REHEARSALS, *_REHEARSALS_WITH_FILE)
    if engine not in able:
        remedy = f"leave --rehearsal out, or rehearse on {', '.join(able)}"
        raise BadInput("is a simulator, which samples acceptance anyway", field="--engine", value=engine, remedy=remedy)
    return _made(_REHEARSALS, _REHEARSALS_WITH_FILE, engine, plan, config_file)


def _made(
    plain: Mapping[str, Callable[[Plan], Deployment]],
    with_file: Mapping[str, Callable[[Plan, str | None], Deployment]],
    engine: str,
    plan: Plan,
    config_file: str | None,
) -> Deployment:
    return plain[engine](plan) if engine in plain else with_file[engine](plan, config_file)


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
