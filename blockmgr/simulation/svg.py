"""A small writer of SVG: shapes and text at absolute places, in pixels, with the origin at the top left."""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

INK = "#1f2430"
MUTED = "#6b7280"
RULE = "#d5d9e0"
EMPTY = "#f3f4f7"
RED = "#b42318"
PALETTE = (
    "#4477aa", "#ee7733", "#228833", "#aa3377", "#66ccee", "#ccaa22",
    "#cc3311", "#5e4fa2", "#009988", "#997755", "#ee99aa", "#555555",
)  # fmt: skip
"""Colours that stay apart for most people with a colour vision deficiency."""

FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"


def colour_of(place: int) -> str:
    """The colour of the owner, series or request at a place in its list; the palette repeats."""
    return PALETTE[place % len(PALETTE)]


def text_width(text: str, size: float = 12) -> float:
    """About how wide a text is: digits and capitals need more than this, most letters less."""
    return len(text) * size * 0.58


class Drawing:
    """A drawing that grows as shapes are put on it; its height may be set last."""

    def __init__(self, width: float, height: float = 0) -> None:
        self.width = width
        self.height = height
        self._parts: list[str] = []

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        *,
        opacity: float = 1,
        stroke: str = "",
        tip: str = "",
    ) -> None:
        """A filled rectangle. ``tip`` is shown where the mouse rests."""
        attributes = f'x="{x:.2f}" y="{y:.2f}" width="{max(width, 0):.2f}" height="{max(height, 0):.2f}" fill="{fill}"'
        if opacity != 1:
            attributes += f' fill-opacity="{opacity:g}"'
        if stroke:
            attributes += f' stroke="{stroke}" stroke-width="1"'
        self._parts.append(
            f"<rect {attributes}><title>{escape(tip)}</title></rect>" if tip else f"<rect {attributes}/>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = RULE, width: float = 1) -> None:
        """A straight line."""
        self._parts.append(
            f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 12,
        anchor: str = "start",
        fill: str = INK,
        bold: bool = False,
    ) -> None:
        """A line of text whose baseline is at ``y``. ``anchor``: ``start``, ``middle`` or ``end``."""
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:g}" text-anchor="{anchor}" fill="{fill}"{weight}>'
            f"{escape(text)}</text>"
        )

    def heading(self, title: str, subtitle: str) -> float:
        """Title and subtitle at the top left, and the title as the drawing's name. Returns the y where content begins."""
        self._parts.insert(0, f"<title>{escape(title)}</title>")
        self.text(24, 36, title, size=19, bold=True)
        lines = wrap(subtitle, self.width - 48)
        for place, line in enumerate(lines):
            self.text(24, 58 + 18 * place, line, fill=MUTED)
        return 58 + 18 * len(lines)

    def legend(self, x: float, y: float, entries: Sequence[tuple[str, str, float]]) -> float:
        """Swatches with their meaning: (text, colour, opacity), wrapped at the right edge. Returns the y below it."""
        start = x
        for text, colour, opacity in entries:
            width = 26 + text_width(text)
            if x > start and x + width > self.width - 24:
                x, y = start, y + 20
            self.rect(x, y, 13, 13, colour, opacity=opacity, stroke=RULE)
            self.text(x + 19, y + 11, text)
            x += width + 10
        return y + 24

    def __str__(self) -> str:
        """The document."""
        size = f'width="{self.width:g}" height="{self.height:g}" viewBox="0 0 {self.width:g} {self.height:g}"'
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family={quoteattr(FONT)}>',
                # A page of its own, so that the drawing is readable on a dark one.
                f'<rect width="{self.width:g}" height="{self.height:g}" fill="#ffffff"/>',
                *self._parts,
                "</svg>\n",
            )
        )


def wrap(text: str, width: float, size: float = 12) -> list[str]:
    """Break a text into lines of at most ``width`` pixels, between words."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
