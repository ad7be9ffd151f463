"""Scaling signals of all fleets, from what a tick knows: one :class:`Scaler` each, kept from tick to tick."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from controlplane.observability import metrics
from controlplane.scaling.signal import FleetSecond, Scaler
from controlplane.telemetry.db_snapshot import DbSnapshot, FleetRow
from controlplane.telemetry.frame_builder import Frames
from controlplane.telemetry.frame_publisher import SaidBefore
from controlplane.telemetry.frames import FleetFrame, ReplicaLive
from controlplane.telemetry.merged_numbers import FleetNumbers, Merged
from routing.contract.startup import usual_duration

UNKNOWN_GROWTH = 1.0


class Scalers:
    """Of one leader."""

    def __init__(self) -> None:
        self._fleets: dict[str, Scaler] = {}

    def follow(self, frames: Frames, rows: DbSnapshot, merged: Merged, now: float) -> None:
        """Note one second, and put each fleet's signal into its frame. ``now``: monotonic seconds.

        While no proxy reports, nothing is known of the load: there is no signal, and nothing is forgotten.
        """
        if not merged.workers:
            metrics.DESIRED_REPLICAS.clear()
            return
        for row in rows.fleets:
            scaler = self._fleets.setdefault(row.name, Scaler())
            frame = frames.fleets[row.name]
            numbers = merged.fleets.get(row.name) or FleetNumbers(row.name)
            frame.scaling = scaler.second(now, _second(row, frame, numbers), row.scaling)
            frame.summary.desired_replicas = frame.scaling.desired
            frame.summary.desired_age_s = frame.scaling.age_s
            _expose(row.name, frame.scaling.desired)
        for name in self._fleets.keys() - frames.fleets.keys():
            del self._fleets[name]
            _expose(name, None)

    def begin(self, said: Mapping[str, SaidBefore], now: float) -> None:
        """What another leader has said last: it stands until it can be told anew, and fewer are not said
        before they may be."""
        for name, last in said.items():
            self._fleets.setdefault(name, Scaler()).begin(now, last.desired, last.age_s)


def _expose(fleet: str, desired: int | None) -> None:
    if desired is not None:
        metrics.DESIRED_REPLICAS.labels(fleet).set(desired)
    else:
        with suppress(KeyError):
            metrics.DESIRED_REPLICAS.remove(fleet)


def _second(row: FleetRow, frame: FleetFrame, numbers: FleetNumbers) -> FleetSecond:
    meant = [one for one in frame.replicas if one.admin_state == "active" and one.weight > 0]
    taking = [one for one in meant if one.eligible]
    return FleetSecond(
        arrivals_per_s=numbers.rps,
        in_flight=numbers.in_flight,
        waiting=numbers.queue.waiting,
        served_per_s=numbers.served_per_s,
        limits=[one.max_concurrency for one in taking],
        limits_of_all=[one.max_concurrency for one in meant],
        starting=sum(one.health == "checking" for one in meant),
        growth=frame.serves.growth if frame.serves is not None else UNKNOWN_GROWTH,
        kv_shares=list(_kv_shares(taking)),
        start_s=usual_duration([one.startup_s for one in row.replicas]),
        first_token_s=numbers.first_token.p95_s,
        first_token_objective_s=row.first_token_objective_s,
    )


def _kv_shares(replicas: Iterable[ReplicaLive]) -> Iterable[float]:
    for one in replicas:
        if one.reported is not None and one.reported.kv_share is not None:
            yield one.reported.kv_share
