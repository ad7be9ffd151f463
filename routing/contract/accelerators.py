"""Accelerator memory: what replicas hold permanently, what can be leased, and what overcommits a device.

Both planes and the fleet file use this module, so that they get the same result and the same message.
Theory: usable is a device's memory minus its headroom. Replicas hold a part of it all the time (mainly their
weights); only the rest can be leased to requests while they run.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import floor
from typing import NamedTuple

from routing.contract.table import AcceleratorSpec

_SHOWN = 8
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


class MemoryClaim(NamedTuple):
    """What one replica asks of one device."""

    accelerator: str
    fleet: str
    """Empty: this is what replicas ask together whose names are not for who is told."""
    replica: str
    memory_bytes: int = 0
    """All the time."""
    request_bytes: int = 0
    """For each request, whatever its work."""

    @property
    def holder(self) -> str:
        """``llm/a``."""
        return f"{self.fleet}/{self.replica}" if self.fleet else "those that you may not see"


def usable_bytes(device: AcceleratorSpec) -> int:
    """Its memory less the headroom."""
    return floor(device.memory_bytes * (1 - device.headroom_percent / 100))


class Overcommit(NamedTuple):
    """Why replicas cannot be on one device together."""

    message: str
    """With the arithmetic."""
    field: str
    """Of the replica, that is too large: ``memory_bytes`` or ``request_bytes``."""
    held: MemoryClaim
    """The first that is too much."""


def find_overcommit(device: AcceleratorSpec, held: Iterable[MemoryClaim]) -> Overcommit | None:
    """Whether these replicas can be on this device together; ``None``: they can.

    ``held`` may speak of other devices as well; those are passed over.
    """
    here = [one for one in held if one.accelerator == device.name]
    usable = usable_bytes(device)
    total = sum(one.memory_bytes for one in here)
    if total > usable:
        running = accumulate(one.memory_bytes for one in here)
        first = next(one for one, so_far in zip(here, running, strict=True) if so_far > usable)
        message = (
            f"does not fit on accelerator {device.name}: {_usable_words(device)}, and its replicas hold "
            f"{_sum_words(here, total)}, {shown_bytes(total - usable)} too much"
        )
        return Overcommit(message, "memory_bytes", first)
    left = usable - total
    greedy = next((one for one in here if one.request_bytes > left), None)
    if greedy is not None:
        holding = f", of which replicas hold {shown_bytes(total)}" if total else ""
        message = (
            f"no request could run on accelerator {device.name}: {_usable_words(device)}{holding}, which "
            f"leaves {shown_bytes(left)} for requests, and one at {greedy.holder} takes "
            f"{shown_bytes(greedy.request_bytes)}"
        )
        return Overcommit(message, "request_bytes", greedy)
    return None


def shown_bytes(number: float) -> str:
    """An amount of memory as people write it: ``1.25 GiB``; four digits at most, exact below 1024 bytes."""
    size, unit = float(number), 0
    while abs(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    word = "byte" if number == 1 else _UNITS[unit]
    return f"{size:.4g} {word}"


def _usable_words(device: AcceleratorSpec) -> str:
    whole = shown_bytes(device.memory_bytes)
    if not device.headroom_percent:
        return f"it has {whole}"
    usable = shown_bytes(usable_bytes(device))
    return f"{whole} less {device.headroom_percent:g} % headroom are {usable}"


def _sum_words(held: Sequence[MemoryClaim], total: int) -> str:
    """``llm/a 40 GiB + llm/b 40 GiB = 80 GiB``; of a single one only that."""
    parts = [f"{one.holder} {shown_bytes(one.memory_bytes)}" for one in held if one.memory_bytes]
    if len(parts) > _SHOWN:
        rest = len(parts) - _SHOWN
        parts = [*parts[:_SHOWN], f"{rest} more"]
    together = f" = {shown_bytes(total)}" if len(parts) > 1 else ""
    return f"{' + '.join(parts)}{together}"
