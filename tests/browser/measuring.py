"""The conductor's part, played by the test: real frames over the real channel layer, into real history.

Weights and admin states come from the snapshots that the web process publishes, so a frame shows a
change only once it has been published.
"""

import asyncio
import threading
import time
from collections.abc import Callable

import msgspec
import redis
from channels.layers import get_channel_layer
from django.conf import settings

from controlplane.scaling.signal import ScalingSignal
from controlplane.telemetry import frames
from routing.contract import redis_keys
from routing.contract.accelerators import usable_bytes
from routing.contract.table import FleetSnapshot, ReplicaSpec, decode_manifest, decode_snapshot

PERIOD_S = 0.5
HISTORY = 120
JOIN_LIMIT_S = 20.0


class Measuring:
    """Sends a frame each PERIOD_S. What a test sets is in the next one."""

    def __init__(self) -> None:
        self.redis = redis.Redis.from_url(settings.REDIS_URL)
        self.fleets: list[str] = []
        self.in_flight: dict[str, int] = {}
        self.moving: dict[str, frames.MovingLive] = {}
        """Replica → what can be moved; else nobody looks."""
        self.reported: dict[str, frames.ReportedLive] = {}
        """Replica → requests in flight; else 3."""
        self.states: dict[str, tuple[str, str]] = {}
        """Replica → state and why, where it is not what the snapshot says."""
        self.leased: dict[str, int] = {}
        """Accelerator → bytes that requests lease there; else none."""
        self.refused_per_s = 0.0
        self.refused = ""
        """Why proxy workers refuse a newer table; empty: they do not."""
        self.client_keys: list[frames.ClientKeyLive] = []
        self.queue = frames.QueueLive(size=256, timeout_s=10.0)
        self.affinity = frames.AffinityLive()
        """Of every fleet, as what follows."""
        self.sites: list[frames.SiteLive] = []
        self.serves: frames.ServesLive | None = None
        self.predictions: frames.PredictionsLive | None = None
        self.learned: dict[str, frames.LearnedLive] = {}
        """By replica."""
        self.fallbacks: list[frames.FallbackLive] = []
        self.no_fallback: dict[str, int] = {}
        self.covered = False
        self.would_refuse: int | None = None
        self.cold: frames.ColdLive | None = None
        self.scaling: ScalingSignal | None = None
        self.tokens: dict[str, float] = {}
        """Of each point, by its fields."""
        self.errors: list[frames.ErrorReasonLive] = []
        self.sequence = 0
        self.workers = 2
        self._sending = threading.Event()
        self._ended = threading.Event()
        self._publishing = threading.Lock()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> "Measuring":
        self._sending.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(JOIN_LIMIT_S)
        self.redis.close()

    def pause(self) -> None:
        """Returns when the last frame is stored and sent."""
        with self._turn:
            self._sending.clear()

    def resume(self) -> None:
        self._sending.set()

    async def _run(self) -> None:
        layer = get_channel_layer()
        while not self._ended.is_set():
            with self._turn:
                if self._sending.is_set():
                    for group, frame in self.publish(time.time()):
                        await layer.group_send(group, {"type": "live.frame", "data": frame})
            await asyncio.sleep(PERIOD_S)
        await layer.flush()

    def add(self, fleet: str) -> None:
        """Measure a fleet from now on: a page that is opened next finds it in the frame it begins with. Else
        that may be one of an empty install, and the page shows the first steps until told otherwise."""
        self.fleets.append(fleet)
        self.publish(time.time())

    def publish(self, at: float) -> list[tuple[str, str]]:
        """Store one frame of everything and its points; answers what is to be sent to which group."""
        with self._publishing:
            return self._publish(at)

    def _publish(self, at: float) -> list[tuple[str, str]]:
        self.sequence += 1
        snapshots = [snapshot for name in self.fleets if (snapshot := self._snapshot(name))]
        each = [self._fleet_frame(snapshot, at) for snapshot in snapshots]
        overview = self._overview(each, at)
        store = self.redis.pipeline()
        sent = [
            (frames.OVERVIEW_GROUP, self._keep(store, "*", frames.OVERVIEW_KEY, overview, overview.total))
        ]
        keys = frames.ClientKeysFrame(
            sequence=self.sequence, at=at, table="1:1", workers=self.workers, keys=self.client_keys
        )
        sent.append((frames.CLIENT_KEYS_GROUP, msgspec.json.encode(keys).decode()))
        store.set(frames.CLIENT_KEYS_KEY, sent[-1][1])
        for frame in each:
            name = frame.summary.name
            key = frames.fleet_key(name)
            sent.append((frames.fleet_group(name), self._keep(store, name, key, frame, frame.point)))
        store.execute()
        return sent

    def _keep(
        self,
        store: "redis.client.Pipeline",
        name: str,
        key: str,
        frame: frames.OverviewFrame | frames.FleetFrame,
        point: frames.Point,
    ) -> str:
        body = msgspec.json.encode(frame)
        store.set(key, body)
        store.rpush(frames.history_key(name), msgspec.json.encode(point))
        store.ltrim(frames.history_key(name), -HISTORY, -1)
        return body.decode()

    def _snapshot(self, name: str) -> FleetSnapshot | None:
        body = self.redis.hget(redis_keys.fleet_key(name), "body")
        return decode_snapshot(body) if body else None

    def _point(self, at: float, in_flight: int) -> frames.Point:
        """Moves with every frame, so that a page can be seen to."""
        step = self.sequence % 40
        return frames.Point(
            at=at,
            rps=100.0 + step,
            p50_s=0.020 + step / 1000,
            p99_s=0.200 + step / 100,
            errors_per_s=0.0,
            in_flight=in_flight,
            waiting=self.queue.waiting,
            **self.tokens,
        )

    def _replica(self, spec: ReplicaSpec, share: float) -> frames.ReplicaLive:
        active = spec.admin_state == "active"
        state, why = self.states.get(
            spec.name, ("ready", "for 2 h") if active else (spec.admin_state, "by anna")
        )
        eligible = state == "ready"
        return frames.ReplicaLive(
            name=spec.name,
            eligible=eligible,
            state=state,
            why=why,
            admin_state=spec.admin_state,
            health="ready",
            ejected=state == "ejected",
            weight=spec.weight,
            rps=share,
            share_percent=share if eligible else 0.0,
            in_flight=self.in_flight.get(spec.name, 3),
            max_concurrency=16,
            p50_s=0.02,
            p99_s=0.2,
            errors_per_s=0.0,
            seconds_per_work=None,
            learned=self.learned.get(spec.name),
            reported=self.reported.get(spec.name),
            move=spec.move,
            moving=self.moving.get(spec.name),
        )

    def _fleet_frame(self, snapshot: FleetSnapshot, at: float) -> frames.FleetFrame:
        replicas = [self._replica(spec, 100 / len(snapshot.replicas)) for spec in snapshot.replicas]
        states: dict[str, int] = {}
        for replica in replicas:
            states[replica.state] = states.get(replica.state, 0) + 1
        point = self._point(at, sum(replica.in_flight for replica in replicas) + self.queue.waiting)
        summary = frames.FleetSummary(
            name=snapshot.name,
            protocol=snapshot.protocol,
            aliases=snapshot.aliases,
            adapters=snapshot.adapters,
            strategy=snapshot.policy.strategy,
            revision=snapshot.revision,
            rps=point.rps,
            p50_s=point.p50_s,
            p99_s=point.p99_s,
            error_percent=0.0,
            in_flight=point.in_flight,
            queue=self.queue,
            affinity=self.affinity,
            sites=self.sites,
            fallbacks=self.fallbacks,
            no_fallback=self.no_fallback,
            covered=self.covered,
            capacity=16 * len(replicas),
            replicas=len(replicas),
            eligible=sum(replica.eligible for replica in replicas),
            taking=sum(replica.eligible and replica.weight > 0 for replica in replicas),
            cold=self.cold,
            states=states,
            would_refuse=self.would_refuse,
        )
        return frames.FleetFrame(
            sequence=self.sequence,
            at=at,
            table=f"{snapshot.epoch}:{snapshot.version}",
            summary=summary,
            point=point,
            replicas=replicas,
            workers=self.workers,
            workers_current=self.workers,
            serves=self.serves,
            predictions=self.predictions,
            scaling=self.scaling,
            errors=self.errors,
        )

    def _overview(self, each: list[frames.FleetFrame], at: float) -> frames.OverviewFrame:
        fleets = [frame.summary for frame in each]
        return frames.OverviewFrame(
            sequence=self.sequence,
            at=at,
            table="1:1",
            total=self._point(at, _total(fleets, lambda fleet: fleet.in_flight)),
            replicas=_total(fleets, lambda fleet: fleet.replicas),
            eligible=_total(fleets, lambda fleet: fleet.eligible),
            error_percent=0.0,
            refused_per_s=self.refused_per_s,
            fleets=fleets,
            workers=[self._worker(index) for index in range(self.workers)],
            accelerators=self._accelerators(),
        )

    def _accelerators(self) -> list[frames.AcceleratorLive]:
        body = self.redis.hget(redis_keys.MANIFEST, "body")
        return [
            frames.AcceleratorLive(
                name=spec.name,
                memory_bytes=spec.memory_bytes,
                usable_bytes=usable_bytes(spec),
                held_bytes=0,
                leased_bytes=self.leased.get(spec.name, 0),
                lease_waits=0,
            )
            for spec in (decode_manifest(body).accelerators if body else [])
        ]

    def _worker(self, index: int) -> frames.WorkerLive:
        return frames.WorkerLive(
            name=f"host/7/{index}",
            age_s=0.3,
            applied="1:1",
            behind=False,
            refused=self.refused,
            redis_ok=True,
            cpu_percent=12.0,
            clients=4,
        )


def _total(fleets: list[frames.FleetSummary], number: Callable[[frames.FleetSummary], int]) -> int:
    return sum(number(fleet) for fleet in fleets)
