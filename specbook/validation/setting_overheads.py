"""What the engine of a row spends beside the passes, where anybody fitted it."""

from __future__ import annotations

from specbook.roofline.engine_overheads import EngineOverheads, engine_names, engine_overheads
from specbook.validation.settings import Setting

NO_OVERHEADS = EngineOverheads(
    engine="none fitted",
    draft_pass_s=0.0,
    round_s=0.0,
    row_share=0.0,
    outside_share=0.0,
    evidence="none",
    source="nobody fitted any for this engine",
    n_rows=0,
    n_series=0,
)


def overheads_of(setting: Setting) -> EngineOverheads:
    """Overheads of a setting's engine; none where nobody knows any.

    Examples
    --------
    >>> from specbook.validation.settings import example_setting
    >>> overheads_of(example_setting()).label.split(":")[0]
    'sglang'
    """
    if setting.engine in engine_names():
        return engine_overheads(setting.engine)
    return NO_OVERHEADS
