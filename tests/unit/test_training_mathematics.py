"""Generated mathematics: every equation holds, no question comes twice, the same seed gives the same problems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from specbook.training import mathematics
from specbook.training.mathematics import TEMPLATES, Problem, draw_problem, draw_problems

_EQUATION = re.compile(r"(-?\d+) ([-+*/]) \(?(-?\d+)\)? = (-?\d+)")
_OPERATIONS: dict[str, Callable[[int, int], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.__name__)
def test_steps_of_every_template_are_true(template: Callable[[np.random.Generator], Problem]):
    rng = np.random.default_rng(3)
    for _ in range(200):
        problem = template(rng)
        equations = _EQUATION.findall(" ".join(problem.steps))
        assert equations, problem.text
        for left, sign, right, result in equations:
            assert _OPERATIONS[sign](int(left), int(right)) == int(result), problem.text


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.__name__)
def test_answer_of_every_template_is_what_the_steps_end_with(template: Callable[[np.random.Generator], Problem]):
    rng = np.random.default_rng(4)
    for _ in range(50):
        problem = template(rng)
        results = [result for *_, result in _EQUATION.findall(" ".join(problem.steps))]
        assert re.search(r"\d+", problem.answer)
        if not problem.answer.startswith("x^2"):
            assert results[-1] == problem.answer, problem.text


def test_expansion_is_right_at_three_values_of_x():
    rng = np.random.default_rng(5)
    expansion = next(template for template in TEMPLATES if template.__name__ == "_expansion")
    for _ in range(100):
        problem = expansion(rng)
        roots = [int(s + n) for s, n in re.findall(r"\(x ([-+]) (\d+)\)", problem.question)]
        (sign, linear, sign_of_last, last) = re.fullmatch(r"x\^2 ([-+]) (\d+)x ([-+]) (\d+)", problem.answer).groups()  # type: ignore[union-attr]
        for x in (-2, 1, 5):
            assert (x + roots[0]) * (x + roots[1]) == x * x + int(sign + linear) * x + int(sign_of_last + last)


def test_equations_are_solved_by_their_answer():
    rng = np.random.default_rng(6)
    equation = next(template for template in TEMPLATES if template.__name__ == "_equation")
    for _ in range(100):
        problem = equation(rng)
        factor, sign, shift, value = re.search(r"(\d+)x ([-+]) (\d+) = (-?\d+)", problem.question).groups()  # type: ignore[union-attr]
        assert int(factor) * int(problem.answer) + int(sign + shift) == int(value)


def test_draw_problems_never_repeat_a_question_and_reach_the_length():
    problems = list(draw_problems(60_000, np.random.default_rng(0)))
    assert len({problem.question for problem in problems}) == len(problems)
    total = sum(len(problem.text) for problem in problems)
    assert 60_000 <= total < 61_000


def test_draw_problems_same_seed_same_problems():
    first, second = (list(draw_problems(5000, np.random.default_rng(9))) for _ in range(2))
    assert first == second


def test_draw_problem_uses_every_template_equally_often(monkeypatch: pytest.MonkeyPatch):
    problems = [Problem(question=name, steps=(), answer="0") for name in "abc"]
    monkeypatch.setattr(mathematics, "TEMPLATES", tuple(lambda _, problem=problem: problem for problem in problems))
    rng = np.random.default_rng(1)
    drawn = Counter(draw_problem(rng).question for _ in range(3000))
    assert all(abs(count - 1000) < 4 * np.sqrt(3000 * 2 / 9) for count in drawn.values())
    assert len(drawn) == 3


def test_draw_problems_end_when_nothing_new_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mathematics, "TEMPLATES", (lambda _: Problem(question="Why?", steps=(), answer="0"),))
    assert len(list(draw_problems(10**6, np.random.default_rng(0)))) == 1


@pytest.mark.parametrize("n", [-1, 0.5, float("nan")])
def test_draw_problems_impossible_length_is_refused(n: float):
    with pytest.raises(ValueError, match="n_characters"):
        list(draw_problems(n, np.random.default_rng(0)))  # type: ignore[arg-type]


def test_draw_problems_nothing_asked_is_nothing_given():
    assert list(draw_problems(0, np.random.default_rng(0))) == []
