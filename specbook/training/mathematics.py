"""Worked school problems, made from templates: the mathematics of the training corpus.

Every problem is a question, the steps of its solution and the answer. The wording is fixed and the numbers vary, which
is why a small model predicts these texts far better than code or conversation. That is a property of this set, not of
mathematics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from specbook.checks import check_counts

# fmt: off
_NAMES = (
    "Ada", "Bruno", "Chen", "Dora", "Elif", "Farid", "Gita", "Henrik", "Ines", "Jonas", "Kofi", "Lena", "Marek",
    "Nadia", "Oscar", "Petra", "Ravi", "Sofia", "Tomas", "Yuki",
)
_THINGS = (
    "beads", "bolts", "buttons", "candles", "cards", "coins", "crayons", "figs", "lemons", "nails", "pears",
    "pebbles", "plates", "ribbons", "seeds", "tiles",
)
# fmt: on
# Several templates run out of new questions before a large corpus is full; so many repeats in a row end it.
_MAX_REPEATS = 10_000


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A question with the steps that solve it.

    Parameters
    ----------
    question : str
    steps : tuple of str
        One sentence each; every equation of two numbers in it is true.
    answer : str

    Examples
    --------
    >>> print(Problem(question="Add 2 and 3.", steps=("2 + 3 = 5.",), answer="5").text)
    Question: Add 2 and 3.
    Answer: 2 + 3 = 5.
    #### 5
    """

    question: str
    steps: tuple[str, ...]
    answer: str

    @property
    def text(self) -> str:
        """The problem as a document of the corpus, without a newline at its end."""
        steps = "\n".join(self.steps)
        return f"Question: {self.question}\nAnswer: {steps}\n#### {self.answer}"


def draw_problem(rng: np.random.Generator) -> Problem:
    """One problem of a template drawn at random.

    Examples
    --------
    >>> print(draw_problem(np.random.default_rng(5)).text)
    Question: Solve 2x + 13 = 29 for x.
    Answer: Take 13 from both sides: 2x = 29 - (13) = 16.
    Divide by 2: x = 16 / 2 = 8.
    #### 8
    """
    return TEMPLATES[int(rng.integers(len(TEMPLATES)))](rng)


def draw_problems(n_characters: int, rng: np.random.Generator) -> Iterator[Problem]:
    """Problems with questions that all differ, until their texts reach a number of characters.

    Parameters
    ----------
    n_characters : int
        Total length at which to stop, at least 0; ends early if ten thousand draws in a row are repeats.
    rng : numpy.random.Generator

    Yields
    ------
    Problem

    Raises
    ------
    ValueError
        If ``n_characters`` is negative or not whole.

    Examples
    --------
    >>> problems = list(draw_problems(2000, np.random.default_rng(0)))
    >>> len({problem.question for problem in problems}) == len(problems)
    True
    """
    missing, repeats, seen = int(check_counts("n_characters", n_characters)), 0, set[str]()
    while missing > 0 and repeats < _MAX_REPEATS:
        problem = draw_problem(rng)
        if problem.question in seen:
            repeats += 1
            continue
        repeats = 0
        seen.add(problem.question)
        missing -= len(problem.text)
        yield problem


def _whole(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(rng.integers(low, high + 1))


def _two_names(rng: np.random.Generator) -> tuple[str, str]:
    first, second = rng.choice(len(_NAMES), size=2, replace=False)
    return _NAMES[first], _NAMES[second]


def _thing(rng: np.random.Generator) -> str:
    return _THINGS[_whole(rng, 0, len(_THINGS) - 1)]


def _signed(value: int) -> str:
    """A number as a term that is added: ``+ 3`` or ``- 3``."""
    return f"+ {value}" if value >= 0 else f"- {-value}"


def _received(rng: np.random.Generator) -> Problem:
    (name, other), thing, had, more = _two_names(rng), _thing(rng), _whole(rng, 2, 60), _whole(rng, 2, 60)
    return Problem(
        question=f"{name} owns {had} {thing} and gets {more} from {other}. How many {thing} are there then?",
        steps=(f"{name} owns {had} {thing} before.", f"With the new ones it is {had} + {more} = {had + more} {thing}."),
        answer=str(had + more),
    )


def _handed_over(rng: np.random.Generator) -> Problem:
    (name, other), thing, left, gone = _two_names(rng), _thing(rng), _whole(rng, 2, 60), _whole(rng, 2, 60)
    return Problem(
        question=f"Of {left + gone} {thing}, {name} hands {gone} to {other}. How many {thing} does {name} keep?",
        steps=(f"{other} gets {gone} {thing}.", f"{name} keeps {left + gone} - {gone} = {left} {thing}."),
        answer=str(left),
    )


def _packed(rng: np.random.Generator) -> Problem:
    (name, _), thing, each, packs = _two_names(rng), _thing(rng), _whole(rng, 2, 60), _whole(rng, 2, 12)
    return Problem(
        question=f"{name} orders {packs} packs of {each} {thing}. How many {thing} arrive?",
        steps=(
            f"There are {packs} packs, and each holds {each} {thing}.",
            f"That makes {packs} * {each} = {packs * each} {thing}.",
        ),
        answer=str(packs * each),
    )


def _shared(rng: np.random.Generator) -> Problem:
    (name, _), thing, each, people = _two_names(rng), _thing(rng), _whole(rng, 2, 60), _whole(rng, 2, 12)
    total = each * people
    return Problem(
        question=f"{name} splits {total} {thing} evenly between {people} people. How many {thing} does one person get?",
        steps=(
            f"The {total} {thing} are split into {people} parts.",
            f"One part is {total} / {people} = {each} {thing}.",
        ),
        answer=str(each),
    )


def _half_as_many(rng: np.random.Generator) -> Problem:
    (name, _), thing, half = _two_names(rng), _thing(rng), _whole(rng, 2, 60)
    whole = 2 * half
    return Problem(
        question=f"{name} made {whole} {thing} on Monday and half as many on Tuesday. How many is that?",
        steps=(
            f"On Tuesday it was {whole} / 2 = {half} {thing}.",
            f"Both days give {whole} + {half} = {whole + half} {thing}.",
        ),
        answer=str(whole + half),
    )


def _wages(rng: np.random.Generator) -> Problem:
    (name, _), rate, hours, tip = _two_names(rng), _whole(rng, 2, 60), _whole(rng, 2, 12), _whole(rng, 2, 60)
    pay = rate * hours
    return Problem(
        question=f"{name} works {hours} hours for {rate} dollars each and gets {tip} dollars on top. How much is that?",
        steps=(
            f"The hours pay {hours} * {rate} = {pay} dollars.",
            f"Together it is {pay} + {tip} = {pay + tip} dollars.",
        ),
        answer=str(pay + tip),
    )


def _stock(rng: np.random.Generator) -> Problem:
    thing, each, crates = _thing(rng), _whole(rng, 10, 60), _whole(rng, 2, 12)
    total = each * crates
    sold = _whole(rng, 2, min(60, total - 1))
    return Problem(
        question=f"A store has {crates} crates of {each} {thing} and sells {sold} {thing}. How many {thing} stay?",
        steps=(
            f"The crates hold {crates} * {each} = {total} {thing}.",
            f"After the sale {total} - {sold} = {total - sold} {thing} stay.",
        ),
        answer=str(total - sold),
    )


def _journey(rng: np.random.Generator) -> Problem:
    (name, _), speed, hours, further = _two_names(rng), _whole(rng, 3, 60), _whole(rng, 2, 12), _whole(rng, 2, 60)
    first = speed * hours
    return Problem(
        question=f"{name} rides {hours} hours at {speed} km an hour and walks {further} km. How far does {name} go?",
        steps=(
            f"The ride is {hours} * {speed} = {first} km long.",
            f"With the walk it is {first} + {further} = {first + further} km.",
        ),
        answer=str(first + further),
    )


def _equation(rng: np.random.Generator) -> Problem:
    root, factor, shift = _whole(rng, -12, 12), _whole(rng, 2, 9), _whole(rng, -20, 20)
    product = factor * root
    value = product + shift
    return Problem(
        question=f"Solve {factor}x {_signed(shift)} = {value} for x.",
        steps=(
            f"Take {shift} from both sides: {factor}x = {value} - ({shift}) = {product}.",
            f"Divide by {factor}: x = {product} / {factor} = {root}.",
        ),
        answer=str(root),
    )


def _expansion(rng: np.random.Generator) -> Problem:
    first, second = _whole(rng, -12, 12), _whole(rng, -9, 9)
    total, product = first + second, first * second
    return Problem(
        question=f"Expand (x {_signed(first)})(x {_signed(second)}).",
        steps=(
            f"The factor of x is {first} + ({second}) = {total}.",
            f"The last term is {first} * ({second}) = {product}.",
        ),
        answer=f"x^2 {_signed(total)}x {_signed(product)}",
    )


def _product(rng: np.random.Generator) -> Problem:
    number, factor = _whole(rng, 11, 99), _whole(rng, 2, 9)
    units = number % 10
    tens = number - units
    return Problem(
        question=f"Work out {number} * {factor} step by step.",
        steps=(
            f"Split {number}: {tens} + {units} = {number}.",
            f"{tens} * {factor} = {tens * factor}.",
            f"{units} * {factor} = {units * factor}.",
            f"{tens * factor} + {units * factor} = {number * factor}.",
        ),
        answer=str(number * factor),
    )


def _sequence(rng: np.random.Generator) -> Problem:
    start, step = _whole(rng, 1, 30), _whole(rng, 2, 12)
    terms = [start + index * step for index in range(5)]
    return Problem(
        question=f"Which number comes next: {', '.join(map(str, terms[:4]))}?",
        steps=(
            f"The numbers grow by {terms[1]} - {terms[0]} = {step}.",
            f"The next one is {terms[3]} + {step} = {terms[4]}.",
        ),
        answer=str(terms[4]),
    )


TEMPLATES: tuple[Callable[[np.random.Generator], Problem], ...] = (
    _received,
    _handed_over,
    _packed,
    _shared,
    _half_as_many,
    _wages,
    _stock,
    _journey,
    _equation,
    _expansion,
    _product,
    _sequence,
)
