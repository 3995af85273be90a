"""Format numbers and lists for readers."""

from __future__ import annotations

import math
import unicodedata


def number(value: float, figures: int = 3) -> str:
    """Return a number with a few significant digits, but with all its digits before the decimal point.

    Examples
    --------
    >>> number(0.012345), number(3.0), number(271.83), number(-1234567.0), number(1.5e-7)
    ('0.0123', '3', '272', '−1,234,567', '1.5e−07')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return f"{value:.{figures}g}".replace("-", "−")
    digits = max(0, figures - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return (text.rstrip("0").rstrip(".") if digits else text).replace("-", "−")


def percent(share: float, digits: int = 0) -> str:
    r"""Return a share in percent, with a no-break space.

    Examples
    --------
    >>> percent(0.714), percent(0.004), percent(0.99999)
    ('71\xa0%', '0.4\xa0%', '100\xa0%')
    """
    value = 100 * share
    if digits == 0 and 0 < value < 1:
        digits = 1 if value >= 0.05 else 2
    return f"{value:.{digits}f}\u00a0%".replace("-", "−")


def points(share: float) -> str:
    """Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> points(0.034), points(-0.2), points(-1e-17)
    ('+3.4', '−20.0', '+0.0')
    """
    return f"{round(100 * share, 1) + 0.0:+.1f}".replace("-", "−")


def span(interval: list[float] | tuple[float, float]) -> str:
    r"""Return an interval of shares in percent.

    Examples
    --------
    >>> span([0.642, 0.771])
    '64–77\xa0%'
    """
    low, high = interval
    return f"{100 * low:.0f}–{100 * high:.0f}\u00a0%"


def with_span(share: float, interval: list[float] | tuple[float, float]) -> str:
    r"""Return a share and its interval in percent.

    Examples
    --------
    >>> with_span(0.714, [0.642, 0.771])
    '71\xa0% (64–77\xa0%)'
    """
    return f"{percent(share)} ({span(interval)})"


def with_ends(difference: float, interval: list[float] | tuple[float, float]) -> str:
    """Return a difference of shares and its 90 % interval in percentage points.

    Examples
    --------
    >>> with_ends(0.034, [-0.01, 0.078])
    '+3.4 points, 90 % interval −1.0 to +7.8'
    """
    low, high = map(points, interval)
    return f"{points(difference)} points, 90 % interval {low} to {high}"


def shorten(text: str, width: int) -> str:
    """Return a text cut to a number of characters, with an ellipsis; wide characters count twice.

    Examples
    --------
    >>> shorten("a very long name of a class", 12)
    'a very long…'
    """
    return text if _width(text) <= width else text[: max(_fitting(text, width) - 1, 1)].rstrip() + "…"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _fitting(text: str, width: int) -> int:
    """Return the number of characters of a text that fit into a width."""
    return next((i for i in range(len(text)) if _width(text[: i + 1]) > width), len(text))


def wrap(text: str, width: int) -> list[str]:
    """Return a text in at most two lines of a number of characters, the second one cut if need be.

    Examples
    --------
    >>> wrap("night owls who commute by train", 16)
    ['night owls who', 'commute by train']
    >>> wrap("a long name that does not fit into two lines", 12)
    ['a long name', 'that does n…']
    """
    words = text.split()
    count = next((n for n in range(len(words), 0, -1) if _width(" ".join(words[:n])) <= width), 0)
    if words and not count:  # a long word is broken
        at = _fitting(words[0], width)
        words[:1], count = [words[0][:at], words[0][at:]], 1
    first, rest = " ".join(words[:count]), " ".join(words[count:])
    return [first, shorten(rest, width)] if rest else [first]


def join_words(words: list[str]) -> str:
    """Join words into a list for a sentence.

    Examples
    --------
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def with_article(name: str) -> str:
    """Return the name of a method with an article, unless it is a proper name.

    Examples
    --------
    >>> with_article("random forest"), with_article("LightGBM")
    ('the random forest', 'LightGBM')
    """
    return name if name[0].isupper() else f"the {name}"
