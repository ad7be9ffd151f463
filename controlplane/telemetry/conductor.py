"""One conductor: a beat a second, of which the elected leader's does the work.

A conductor that does not lead merges reports all the same, so that it can take over without a gap in
rates and percentiles. Nothing here is lost when Redis or the database is away: the beat goes on with
what it can reach, and says once what it cannot.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis
from django.db import Error as DatabaseError
from django.db import close_old_connections

from controlplane import publisher
from controlplane.observability import metrics
from controlplane.observability.process import this_process
from controlplane.probes import last, loads
from controlplane.telemetry import (
    answering,
    by_hand,
    ejections,
    events,
    frame_builder,
    heartbeat,
    inbox,
    key_limits,
    key_traffic,
    outbox,
    overloads,
    rows,
    shortages,
)
from controlplane.telemetry.by_hand import ByHandState
from controlplane.telemetry.ejections import EjectionState
from controlplane.telemetry.inbox import Inbox
from controlplane.telemetry.key_limits import LimitState
from controlplane.telemetry.leader import LEASE_MS, Leadership
from controlplane.telemetry.merge import Merged, MergeState, merge
from controlplane.telemetry.outages import Outages
from controlplane.telemetry.outbox import OutboxState
from controlplane.telemetry.overloads import OverloadState
from controlplane.telemetry.rows import Rows
from controlplane.telemetry.shortages import ShortageState

Messages = list[tuple[str, str]]
"""(channel group, frame as JSON)."""

logger = logging.getLogger(__name__)


class Conductor:
    """Everything one conductor remembers from beat to beat. Used by one thread."""

    def __init__(
        self,
        client: "redis.Redis",
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.leads = False
        self._client = client
        self._clock = clock
        self._wall_clock = wall_clock
        self._leadership = Leadership(client)
        self._outages = Outages(logger)
        self._started = clock()
        self._merging = MergeState()
        self._sequence = 0
        self._rows: Rows | None = None
        self._outbox = OutboxState()
        self._ejections: EjectionState | None = None
        self._shortages = ShortageState()
        self._overloads: OverloadState | None = None
        self._limits: LimitState | None = None
        self._by_hand: ByHandState | None = None
        self._answered_ms: dict[str, int] = {}

    def beat(self) -> Messages:
        """One second's work; the frames to send to open pages. Never raises for what is merely away."""
        with metrics.TICK_DURATION.time():
            messages = self._beat()
        metrics.CONDUCTOR_TICKS.inc()
        metrics.LEADER.set(self.leads)
        metrics.FRAMES.inc(len(messages))
        this_process.pulse.beat()
        this_process.ready.set()
        return messages

    def _beat(self) -> Messages:
        began = self._clock()
        close_old_connections()
        messages: Messages = []
        with self._told("Redis", redis.RedisError):
            self._elect()
            received = inbox.read(self._client)
            with metrics.MERGE_DURATION.time():
                merged = merge(self._merging, received.heard, self._clock())
            metrics.WORKERS_HEARD.set(len(merged.workers))
            self._note_answers(received, merged)
            if self.leads:
                messages = self._lead(received, merged, began)
            self._send_heartbeat(began)
            return messages
        self.leads = False
        return []

    def end(self) -> None:
        """Leave, so that another conductor leads at once."""
        with self._told("Redis", redis.RedisError):
            heartbeat.remove(self._client, self.name)
            self._leadership.release()

    def _elect(self) -> None:
        leads = self._leadership.hold()
        if leads and not self.leads:
            logger.info("this conductor leads")
            self._ejections = None
            self._shortages = ShortageState()
            self._overloads = None
            self._limits = None
            self._by_hand = None
            self._outbox = OutboxState()
            self._sequence = outbox.last_sequence(self._client)
        elif self.leads and not leads:
            logger.info("another conductor leads")
        self.leads = leads

    def _lead(self, received: Inbox, merged: Merged, began: float) -> Messages:
        with self._told("the database", DatabaseError):
            self._reconcile()
            self._rows = rows.read()
            self._follow_limits(self._rows, merged)
        messages = self._send_frames(received, merged)
        self._tell_events(received, merged, began)
        return messages

    def _reconcile(self) -> None:
        stored = publisher.publish_all()
        if stored:
            metrics.REPAIRS.inc(stored)
            logger.info("%d table messages were missing from Redis and are stored again", stored)

    def _tell_events(self, received: Inbox, merged: Merged, began: float) -> None:
        with self._told("the event log", DatabaseError):
            if self._ejections is None:
                self._ejections = events.told_so_far()
            news = ejections.news(self._ejections, merged, self._clock())
            if news and self._clock() - began > LEASE_MS / 2000 and not self._leadership.hold():
                return  # so slow that another one may lead by now, and tell it
            for item in news:
                events.record(item)
                ejections.confirm(self._ejections, item, self._clock())
            for shortage in shortages.news(self._shortages, merged, self._clock()):
                events.record_shortage(shortage.text)
                shortages.confirm(self._shortages, shortage, self._clock())
            if self._overloads is None:
                self._overloads = overloads.resumed(events.overloads_told(), self._clock())
            for overload in overloads.news(self._overloads, merged, self._clock()):
                events.record_overload(overload)
                overloads.confirm(self._overloads, overload, self._clock())
            self._tell_drained_by_hand(received, merged)
            self._tell_limits(received, merged)

    def _tell_drained_by_hand(self, received: Inbox, merged: Merged) -> None:
        now = self._clock()
        if self._by_hand is None:
            self._by_hand = by_hand.load(self._client, now, received.now_ms)
        known = bool(self._by_hand.told)
        for item in by_hand.news(self._by_hand, merged, now):
            events.record_by_hand(item)
            by_hand.confirm(self._by_hand, item, now)
        if known or self._by_hand.told:
            by_hand.store(self._client, self._by_hand, now, received.now_ms)

    def _follow_limits(self, present: Rows, merged: Merged) -> None:
        limits = {str(key.id): key.limits for key in present.keys}
        changed = key_traffic.follow(self._merging.keys, merged.keys, limits, self._clock())
        if self._limits is not None:
            key_limits.forget(self._limits, changed)

    def _tell_limits(self, received: Inbox, merged: Merged) -> None:
        now = self._clock()
        if self._limits is None:
            self._limits = key_limits.load(self._client, now, received.now_ms)
        keys = self._rows.keys if self._rows is not None else []
        for item in key_limits.news(self._limits, keys, merged.keys, now):
            events.record_limit(item.text)
            key_limits.confirm(self._limits, item, now)
        if self._limits.refused_at:
            key_limits.store(self._client, self._limits, now, received.now_ms)

    def _send_frames(self, received: Inbox, merged: Merged) -> Messages:
        pipeline = self._client.pipeline(transaction=True)
        answering.store(pipeline, self._answered_ms)
        messages: Messages = []
        if self._rows is not None:
            at = self._wall_clock()
            self._sequence += 1
            probes, told = last.read(self._client), loads.read(self._client)
            frames = frame_builder.build(self._rows, merged, probes, told, sequence=self._sequence, at=at)
            messages = outbox.store(pipeline, self._outbox, frames)
            inbox.forget(pipeline, received.silent, [fleet.name for fleet in self._rows.fleets])
        pipeline.execute()
        return messages

    def _note_answers(self, received: Inbox, merged: Merged) -> None:
        oldest = received.now_ms - answering.ANSWERING_S * 1000
        self._answered_ms = {uid: at for uid, at in self._answered_ms.items() if at >= oldest}
        for fleet in merged.fleets.values():
            for uid, numbers in fleet.replicas.items():
                if numbers.answers:
                    self._answered_ms[uid] = received.now_ms

    def _send_heartbeat(self, began: float) -> None:
        now = self._clock()
        heartbeat.send(
            self._client,
            heartbeat.Beat(
                name=self.name,
                leads=self.leads,
                beat_ms=round((now - began) * 1000, 1),
                away=self._outages.current,
                uptime_s=round(now - self._started, 1),
            ),
        )
        if self.leads:
            heartbeat.forget_old(self._client)

    @contextmanager
    def _told(self, what: str, *errors: type[Exception]) -> Iterator[None]:
        """An error of these kinds ends the block; the log says it once, and once when it is over."""
        try:
            yield
        except errors as error:
            self._outages.away(what, error)
        else:
            self._outages.back(what)
