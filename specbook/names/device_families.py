"""Words for the devices of the catalogue, and what has to be said to tell one variant from another."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Devices that go by one word.

    Attributes
    ----------
    pattern : Pattern
        The word, in a loosened name.
    hints : tuple of (Pattern, str)
        Further words, and the device of the catalogue that they settle on.
    default : str or None
        The device that is meant without any; None if variants differ too much to tell.
    absent : Pattern or None
        Words of variants that the catalogue lacks.
    server : str or None
        The device that is meant where several share a server.
    remark, why : str
        What to add where the default was taken; what is unclear where there is none.
    """

    pattern: re.Pattern[str]
    hints: tuple[tuple[re.Pattern[str], str], ...] = ()
    default: str | None = None
    absent: re.Pattern[str] | None = None
    server: str | None = None
    remark: str = ""
    why: str = "may be"

    @property
    def candidates(self) -> tuple[str, ...]:
        """Devices of the catalogue that the word may stand for."""
        known = [each for _, each in self.hints] + [each for each in (self.default, self.server) if each is not None]
        return tuple(dict.fromkeys(known))


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.])(?:{pattern})(?!\w)")


# A card's number with one of these behind it is another card.
_NOT_A_VARIANT = r"(?! ?(?:ti|super|d|laptop|mobile|max ?q)(?!\w))"
_PORTABLE = _words("laptop|mobile|max ?q|d")


def _card(number: str, known: str, remark: str = "") -> Family:
    prefix = "(?:geforce ?)?(?:rtx ?|gtx ?)?"
    return Family(pattern=_words(f"{prefix}{number}{_NOT_A_VARIANT}"), default=known, absent=_PORTABLE, remark=remark)


def _apple(chip: str, known: str, n_cores: str, other: str) -> Family:
    pattern, remark = _words(f"(?:apple ?)?{chip}"), f"; the {n_cores}-core part"
    return Family(pattern=pattern, default=known, absent=_words(other), remark=remark)


FAMILIES = (
    Family(
        pattern=_words(r"h ?100"),
        hints=((_words("sxm ?5?|hgx|dgx|hbm3"), "h100-sxm5"), (_words("pci ?e|hbm2e"), "h100-pcie")),
        absent=_words("nvl"),
        server="h100-sxm5",
    ),
    Family(pattern=_words("h ?200"), default="h200-sxm"),
    Family(pattern=_words("b ?200"), default="b200-sxm"),
    Family(
        pattern=_words("a ?100"),
        hints=((_words("80 ?gi?b?"), "a100-sxm4-80gb"),),
        absent=_words("pci ?e|40 ?gi?b?"),
        server="a100-sxm4-80gb",
        why="may have 40 or 80 GB, which differ in bandwidth",
    ),
    Family(pattern=_words("l ?40 ?s"), default="l40s"),
    Family(pattern=_words("l ?4"), default="l4"),
    Family(pattern=_words("a ?30"), default="a30"),
    Family(pattern=_words("mi ?300 ?x"), default="mi300x"),
    _card("3090", "rtx-3090"),
    _card("4090", "rtx-4090"),
    _card("5060 ?ti", "rtx-5060-ti-16gb", "; a card of 8 GB has the same bandwidth"),
    _card("3060", "rtx-3060", "; the card of 12 GB"),
    _card("1080 ?ti", "gtx-1080-ti"),
    Family(pattern=_words("gb ?10|dgx ?spark"), default="gb10"),
    Family(pattern=_words(r"strix ?halo|ryzen ai max\+?(?: pro)? 395|radeon 8060 ?s"), default="strix-halo"),
    _apple("m1 ?pro", "m1-pro", "16", "14 ?core"),
    Family(pattern=_words("(?:apple ?)?m4 ?pro"), default="m4-pro"),
    _apple("m3 ?max", "m3-max", "40", "30 ?core"),
    _apple("m4 ?max", "m4-max", "40", "32 ?core"),
    Family(pattern=_words("(?:apple ?)?m3 ?ultra"), default="m3-ultra"),
    Family(pattern=_words(r"sapphire ?rapids|(?:xeon )?(?:platinum )?8480\+?"), default="sapphire-rapids"),
    Family(pattern=_words("genoa|epyc 9654"), default="genoa"),
    Family(pattern=_words("graviton ?4"), default="graviton4"),
)
