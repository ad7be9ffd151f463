"""Merged replicas: the numbers of one fleet's replicas over all its workers, made anew where they may differ.

Of ten thousand replicas most are as they were a second ago. Their counters are then the very same objects
(:mod:`.report_decoder`), and so are their numbers here. Made anew is a replica whose counters are others, at
which something happened, or of which the last numbers said something of a moment: a rate, a percentile of the
last seconds.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from controlplane.telemetry.deltas import ReplicaDelta
from controlplane.telemetry.merged_numbers import ReplicaNumbers
from routing.contract.load_report import younger
from routing.contract.telemetry import SAID_BY_ANOTHER, ReplicaCounters


@dataclass(frozen=True, slots=True)
class ReplicasOfWorker:
    """What one worker says of a fleet's replicas."""

    worker: str
    incarnation: int
    counters: list[ReplicaCounters]
    deltas: dict[str, ReplicaDelta]
    """By uid, of those at which something happened between its last two reports."""
    elapsed_s: float
    """Between these."""

    @property
    def process(self) -> tuple[str, int]:
        return self.worker, self.incarnation


class MergedReplicas:
    """Of one fleet, from merge to merge."""

    def __init__(self) -> None:
        self._workers: Sequence[ReplicasOfWorker] = ()
        self._places: list[dict[str, int]] = []
        """Of each worker: where in its list a replica stands."""
        self._numbers: dict[str, ReplicaNumbers] = {}
        self._of_a_moment: set[str] = set()

    def merge(
        self, workers: Sequence[ReplicasOfWorker], read_lately: Callable[[ReplicaNumbers], bool]
    ) -> dict[str, ReplicaNumbers]:
        """By uid. ``read_lately`` fills in what happened in the last seconds; whether anything did."""
        uids = self._to_be_made(workers)
        self._workers = workers
        for uid in uids:
            numbers = self._made(uid)
            lately = read_lately(numbers)
            self._numbers[uid] = numbers
            if lately or any(uid in one.deltas for one in workers):
                self._of_a_moment.add(uid)
            else:
                self._of_a_moment.discard(uid)
        return dict(self._numbers)

    def said_by_hand(self, uid: str) -> None:
        """Its numbers were given something that is in no counter: they are for this once."""
        self._of_a_moment.add(uid)

    def _to_be_made(self, workers: Sequence[ReplicasOfWorker]) -> Collection[str]:
        changed = self._changed(workers)
        if changed is None:
            self._places = [{each.uid: at for at, each in enumerate(one.counters)} for one in workers]
            self._numbers.clear()
            self._of_a_moment.clear()
            return list(dict.fromkeys(uid for places in self._places for uid in places))
        # Where something happened since the last report, the counters are others too.
        return changed | self._of_a_moment

    def _changed(self, workers: Sequence[ReplicasOfWorker]) -> set[str] | None:
        """Whose counters are others than before; ``None``: workers or replicas are others."""
        if [one.process for one in workers] != [one.process for one in self._workers]:
            return None
        changed: set[str] = set()
        for before, one in zip(self._workers, workers, strict=True):
            if before.counters is one.counters:
                continue
            if len(before.counters) != len(one.counters):
                return None
            for old, new in zip(before.counters, one.counters, strict=True):
                if old is not new:
                    if old.uid != new.uid:
                        return None
                    changed.add(new.uid)
        return changed

    def _made(self, uid: str) -> ReplicaNumbers:
        numbers = ReplicaNumbers(uid, "")
        for one, places in zip(self._workers, self._places, strict=True):
            at = places.get(uid)
            if at is not None:
                _add(numbers, one, one.counters[at])
        return numbers


def _add(numbers: ReplicaNumbers, of: ReplicasOfWorker, counters: ReplicaCounters) -> None:
    numbers.name = numbers.name or counters.name
    numbers.in_flight += counters.in_flight
    numbers.movable += counters.movable
    numbers.movable_prompt_tokens += counters.movable_prompt_tokens
    for reason, requests in counters.staying.items():
        numbers.staying[reason] = numbers.staying.get(reason, 0) + requests
    numbers.moved += counters.moved
    numbers.moved_prompt_tokens += counters.moved_prompt_tokens
    delta = of.deltas.get(counters.uid)
    if delta is not None:
        numbers.rps += delta.picked / of.elapsed_s
        numbers.errors_per_s += delta.failed / of.elapsed_s
        numbers.input_tokens_per_s += delta.input_tokens / of.elapsed_s
        numbers.output_tokens_per_s += delta.output_tokens / of.elapsed_s
    if counters.no_credential:
        numbers.no_credential = counters.no_credential
        numbers.no_credential_at += 1
    if counters.seconds_per_work is not None:
        numbers.speeds.append(counters.seconds_per_work)
    if counters.learned is not None:
        numbers.scales.append(counters.learned)
    numbers.reported = younger(numbers.reported, counters.reported)
    numbers.workers += 1
    if counters.ejected_for_s is not None:
        numbers.ejected_by += 1
        numbers.ejected_for_s = max(numbers.ejected_for_s, counters.ejected_for_s)
        numbers.ejection_reason = _telling(numbers, counters)
    if counters.doubt:
        # The longest tells most: what one worker has heard of its answers, another may not.
        numbers.doubt = max(numbers.doubt, counters.doubt, key=len)
        numbers.doubted_by += 1
    numbers.ejections[of.process] = counters.ejections


def _telling(numbers: ReplicaNumbers, counters: ReplicaCounters) -> str:
    """The reason of an ejection: of the worker that has ejected the replica most often, and of one that
    follows another's ejection only if no other tells more."""
    known, said = numbers.ejection_reason, counters.ejection_reason
    if said.startswith(SAID_BY_ANOTHER):
        return known or said
    newest = counters.ejections > max(numbers.ejections.values(), default=-1)
    return said if newest or not known or known.startswith(SAID_BY_ANOTHER) else known
