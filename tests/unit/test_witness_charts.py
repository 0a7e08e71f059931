"""Charts of receipts: what they are made of, and that the page's formula is numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbook.display import witness_charts as views
from specbook.display.charts import to_svg
from specbook.display.terms_page import shares_of, terms_page
from specbook.witness.composition import composed_error
from specbook.witness.receipt import receipt_of
from tests.receipt_cases import ALONE_S, MEASURED_S, terms, witness_result
from tests.unit.test_page_formula import vega_values

RECEIPT = receipt_of(witness_result(0.01, 0.2, -0.04), date="2026-12-01")


def test_predictions_are_replay_and_forecast_of_each_configuration() -> None:
    frame = views.predictions_frame(RECEIPT)
    assert frame["configuration"].to_list() == [f"chain {n}" for n in (4, 4, 5, 5, 6, 6)]
    assert frame["prediction"].to_list() == ["replay", "forecast"] * 3
    assert frame["error"].to_list() == pytest.approx([0.01, -0.06, 0.2, -0.06, -0.04, -0.06])
    assert frame["predicted_ms"].to_numpy() == pytest.approx((1 + frame["error"]) * frame["measured_ms"])


def test_a_run_without_hardware_shows_its_replay_alone() -> None:
    frame = views.predictions_frame(receipt_of(witness_result(forecast_error=None)))
    assert frame["prediction"].to_list() == ["replay"]
    assert len(views.predictions_chart(frame, "t").to_dict()["layer"]) == 4


def test_requests_are_milliseconds_of_every_request() -> None:
    frame = views.requests_frame(RECEIPT).filter(configuration="chain 4")
    assert frame["measured_ms"].to_list() == pytest.approx(1e3 * MEASURED_S)
    assert frame["simulated_ms"].to_list() == pytest.approx(1.01e3 * MEASURED_S)
    assert frame["alone_ms"].to_list() == pytest.approx(1e3 * ALONE_S)


def test_control_blocks_are_coloured_by_the_verdict() -> None:
    noisy = receipt_of(witness_result(reason="busy"))
    frame = views.control_frame({"alone": RECEIPT, "busy": noisy})
    assert frame["verdict"].to_list() == ["fail"] * 3 + ["inconclusive"] * 3
    chart = views.control_chart(frame, "t").to_dict()
    assert chart["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["inconclusive", "fail"]


@pytest.mark.parametrize(
    "chart",
    [
        views.predictions_chart(views.predictions_frame(RECEIPT), "t"),
        views.requests_chart(views.requests_frame(RECEIPT), "t"),
        views.control_chart(views.control_frame({"alone": RECEIPT}), "t"),
        terms_page(RECEIPT.configurations[0], verify=10),
    ],
)
def test_every_chart_can_be_drawn(chart: Any) -> None:
    assert to_svg(chart.to_dict()).startswith("<svg")


def test_shares_are_those_of_a_measured_round() -> None:
    measured_s = {term.name: term.measured_s for term in terms(0.01) if term.name != "acceptance"}
    shares = shares_of(RECEIPT.configurations[0])
    assert shares == pytest.approx({name: value / sum(measured_s.values()) for name, value in measured_s.items()})


def test_composed_error_is_that_of_the_product() -> None:
    rng = np.random.default_rng(0)
    verify, draft, rounds = rng.uniform(-0.3, 0.3, (3, 200))
    parts_s = rng.uniform(0.1, 1.0, (3, 200))
    round_s, shares = parts_s.sum(axis=0), parts_s / parts_s.sum(axis=0)
    predicted_s = (1 + rounds) * ((1 + verify) * parts_s[0] + (1 + draft) * parts_s[1] + parts_s[2])
    assert composed_error(verify, draft, rounds, shares[0], shares[1]) == pytest.approx(predicted_s / round_s - 1)


@pytest.mark.parametrize("errors", [{}, {"verify": 10}, {"verify": 12, "acceptance": -9, "draft": 30}])
def test_the_page_computes_what_numpy_does(errors: dict[str, int]) -> None:
    chart = terms_page(RECEIPT.configurations[0], **errors).to_dict()
    shares = {name: round(share, 6) for name, share in shares_of(RECEIPT.configurations[0]).items()}
    verify, draft, rounds = (errors.get(name, 0) / 100 for name in ("verify", "draft", "acceptance"))
    expected = composed_error(verify, draft, rounds, shares["verify"], shares["draft"])
    assert max(vega_values(chart, "index", "index")) == 3
    *parts, together = vega_values(chart, "error", "index")
    alone = [(verify, 0, 0), (0, draft, 0), (0, 0, rounds)]
    wanted = [composed_error(*case, shares["verify"], shares["draft"]) for case in alone]
    assert parts == pytest.approx(wanted, abs=1e-12)
    assert together == pytest.approx(expected, abs=1e-12)
    told = f"{expected:+.1%}".replace("-", "−")
    assert f"all together {told}" in to_svg(chart)
