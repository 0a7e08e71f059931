"""The space that brute force would walk."""

from __future__ import annotations

import pytest

from specbook.hardware.profile import catalogue_names
from specbook.roofline.model_spec import PRECISIONS
from specbook.roofline.space import Dimension, design_space, n_configurations


def test_design_space_counts_what_the_package_ships():
    sizes = {dimension.name: dimension.n_choices for dimension in design_space()}
    assert sizes["device"] == len(catalogue_names())
    assert sizes["weight format"] == len(PRECISIONS)
    assert all(size >= 2 for size in sizes.values())


@pytest.mark.parametrize(("sizes", "product"), [((), 1), ((3,), 3), ((3, 4, 5), 60)])
def test_n_configurations_is_the_product(sizes: tuple[int, ...], product: int):
    assert n_configurations([Dimension(name="d", choices="c", n_choices=size) for size in sizes]) == product
