"""Plot of a comparison as SVG: p50, p95 and p99 of the latencies of each strategy.

The axis is logarithmic, because strategies differ by factors. Nothing but text is needed to draw it, and
nothing but a browser to see it; its colours follow the reader's light or dark mode.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from routing.simulator.results import Result

WIDTH, LEFT, RIGHT, TOP, ROW, BOTTOM = 760, 190, 40, 74, 34, 46
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2933; }
.title { font-size: 15px; font-weight: 600; }
.quiet, .tick { fill: #6b7785; }
.tick { text-anchor: middle; font-size: 11px; }
.name { text-anchor: end; }
.value { font-size: 11px; fill: #6b7785; }
.grid { stroke: #e4e8ec; }
.span { stroke: #b9cbe0; stroke-width: 6; stroke-linecap: round; }
.p50 { fill: #9db7d5; } .p95 { fill: #4f86c0; } .p99 { fill: #1b4f8a; }
.mean { stroke: #c2571a; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e3e8ee; } .quiet, .tick, .value { fill: #9aa7b5; } .grid { stroke: #303a45; }
  .span { stroke: #36506e; } .p50 { fill: #54779f; } .p95 { fill: #6ea3dc; } .p99 { fill: #b7d5f7; }
}
"""


def svg(results: Sequence[Result], title: str) -> str:
    """The whole picture. Strategies of which nothing was answered have a row without points."""
    height = TOP + ROW * len(results) + BOTTOM
    axis = _Axis(results)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="16" y="26">{escape(title)}</text>',
        *_legend(),
        *axis.drawn(TOP - 8, height - BOTTOM),
    ]
    for number, result in enumerate(results):
        parts += _row(result, axis, TOP + ROW * number + ROW / 2)
    parts.append(
        f'<text class="quiet" x="{LEFT}" y="{height - 10}">latency, from arrival to last byte</text>'
    )
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """Seconds to pixels, over whole powers of ten that hold all that is drawn."""

    def __init__(self, results: Sequence[Result]) -> None:
        drawn = [result.quantile(share) for result in results for share in (0.50, 0.99)]
        drawn += [result.mean_s for result in results]
        seen = [seconds for seconds in drawn if seconds > 0] or [0.001, 1.0]
        self._low = floor(log10(min(seen)))
        self._high = max(self._low + 1, ceil(log10(max(seen))))

    def x(self, seconds: float) -> float:
        share = (log10(seconds) - self._low) / (self._high - self._low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def drawn(self, top: float, bottom: float) -> Iterator[str]:
        for power in range(self._low, self._high + 1):
            x = self.x(10.0**power)
            yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
            yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}">{_words(10.0**power)}</text>'


def _row(result: Result, axis: _Axis, y: float) -> Iterator[str]:
    yield f'<text class="name" x="{LEFT - 14}" y="{y + 4}">{escape(result.strategy)}</text>'
    if not result.latencies:
        yield f'<text class="value" x="{LEFT}" y="{y + 4}">nothing was answered</text>'
        return
    points = [(name, result.quantile(share)) for name, share in (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))]
    first, last = axis.x(points[0][1]), axis.x(points[-1][1])
    yield f'<line class="span" x1="{first:.1f}" y1="{y}" x2="{last:.1f}" y2="{y}"/>'
    for name, seconds in points:
        words = f"{result.strategy}: {name} {_words(seconds)}"
        yield f'<circle class="{name}" cx="{axis.x(seconds):.1f}" cy="{y}" r="5">'
        yield f"<title>{escape(words)}</title></circle>"
    mean = axis.x(result.mean_s)
    yield f'<line class="mean" x1="{mean:.1f}" y1="{y - 8}" x2="{mean:.1f}" y2="{y + 8}">'
    yield f"<title>{escape(result.strategy)}: mean {_words(result.mean_s)}</title></line>"
    before = last > WIDTH - RIGHT - 60
    x, anchor = (first - 10, "end") if before else (last + 10, "start")
    yield f'<text class="value" x="{x:.1f}" y="{y + 4}" text-anchor="{anchor}">{_words(points[-1][1])}</text>'


def _legend() -> Iterator[str]:
    x = LEFT
    for name, words in (("p50", "median"), ("p95", "95 %"), ("p99", "99 %, in figures")):
        yield f'<circle class="{name}" cx="{x + 5}" cy="48" r="5"/>'
        yield f'<text class="quiet" x="{x + 16}" y="52">{words}</text>'
        x += 34 + 7 * len(words)
    yield f'<line class="mean" x1="{x + 4}" y1="41" x2="{x + 4}" y2="55"/>'
    yield f'<text class="quiet" x="{x + 14}" y="52">mean</text>'


def _words(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
