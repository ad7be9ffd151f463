"""Prometheus text exposition format."""

from collections.abc import Iterable, Mapping, Sequence

from routing.contract.sketch import value_of

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

LabelPairs = tuple[tuple[str, str], ...]


class Exposition:
    """Collects samples and writes each family once, with its help and type."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(
        self, name: str, kind: str, help_text: str, samples: Iterable[tuple[LabelPairs, float | int]]
    ) -> None:
        """One family of counters or gauges; nothing is written if it has no sample."""
        lines = [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
        if lines:
            self._lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}", *lines]

    def histogram(
        self,
        name: str,
        help_text: str,
        samples: Iterable[tuple[LabelPairs, Mapping[int, int]]],
        bounds_s: Sequence[float] = BUCKETS_S,
    ) -> None:
        """Cumulative buckets from sketches; the sum is the sketch's, within 2 %."""
        lines: list[str] = []
        for labels, counts in samples:
            for bound in bounds_s:
                below = sum(count for bucket, count in counts.items() if value_of(bucket) <= bound)
                lines.append(f"{name}_bucket{_labels((*labels, ('le', _number(bound))))} {below}")
            total = sum(counts.values())
            seconds = sum(value_of(bucket) * count for bucket, count in counts.items())
            lines.append(f"{name}_bucket{_labels((*labels, ('le', '+Inf')))} {total}")
            lines.append(f"{name}_sum{_labels(labels)} {_number(seconds)}")
            lines.append(f"{name}_count{_labels(labels)} {total}")
        if lines:
            self._lines += [f"# HELP {name} {help_text}", f"# TYPE {name} histogram", *lines]

    def encode(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()


def _labels(labels: LabelPairs) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float | int) -> str:
    return str(value) if isinstance(value, int) else repr(round(value, 9))
