"""Report decoder: workers' reports as they come each second; of replicas only what has changed is decoded.

Most replicas of a large installation are quiet in any second, and what a worker says of them is the same
bytes again. Then it is the very same object again too, so that whoever compares finds that at once.
"""

from collections.abc import Collection

import msgspec

from routing.contract.telemetry import FleetCounters, ReplicaCounters, WorkerReport


class EncodedFleet(FleetCounters, kw_only=True):
    """A fleet whose replicas are not decoded yet."""

    replicas: msgspec.Raw = msgspec.Raw(b"[]")  # type: ignore[assignment]


class EncodedReport(WorkerReport, kw_only=True):
    """A report whose fleets' replicas are not decoded yet."""

    fleets: list[EncodedFleet] = []  # type: ignore[assignment]


_report: msgspec.json.Decoder[EncodedReport] = msgspec.json.Decoder(EncodedReport)
_items: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])
_replica: msgspec.json.Decoder[ReplicaCounters] = msgspec.json.Decoder(ReplicaCounters)


def decode_without_replicas(data: bytes) -> WorkerReport:
    """As :func:`routing.contract.telemetry.decode_report`, but of no replica anything is said: for whoever
    looks at workers. Raises msgspec.MsgspecError."""
    report = _report.decode(data)
    for fleet in report.fleets:
        fleet.replicas = []  # type: ignore[assignment]
    return report


class _ReportedFleet:
    """A fleet's replicas as one worker last reported them."""

    __slots__ = ("_encoded", "_items", "counters")

    def __init__(self) -> None:
        self._encoded = b"[]"
        self._items: list[bytes] = []
        self.counters: list[ReplicaCounters] = []

    def take(self, encoded: bytes) -> list[ReplicaCounters]:
        """The counters, in a new list where anything in it has changed. Raises msgspec.MsgspecError."""
        if encoded == self._encoded:
            return self.counters
        items = [bytes(item) for item in _items.decode(encoded)]
        known = zip(self._items, self.counters, strict=True)
        found = [
            counters if before == item else _replica.decode(item)
            for item, (before, counters) in zip(items, known, strict=False)
        ]
        found += [_replica.decode(item) for item in items[len(found) :]]
        self._encoded, self._items, self.counters = encoded, items, found
        return found


class ReportDecoder:
    """What it knows of each worker. Used by one thread."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, _ReportedFleet]] = {}
        """Worker → fleet."""

    def decode(self, data: bytes) -> WorkerReport:
        """As :func:`routing.contract.telemetry.decode_report`; counters of replicas may be those of the
        report before, and are not to be changed. Raises msgspec.MsgspecError."""
        report = _report.decode(data)
        before = self._known.get(report.worker, {})
        known = self._known[report.worker] = {}
        for fleet in report.fleets:
            known[fleet.name] = before.get(fleet.name) or _ReportedFleet()
            fleet.replicas = known[fleet.name].take(bytes(fleet.replicas))  # type: ignore[assignment]
        return report

    def forget_all_but(self, workers: Collection[str]) -> None:
        for worker in self._known.keys() - set(workers):
            del self._known[worker]
