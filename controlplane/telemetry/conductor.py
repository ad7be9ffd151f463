"""Conductor: one tick per second; only the elected leader's tick publishes and writes.

A conductor that does not lead merges reports all the same, so that it can take over without a gap in
rates and percentiles. Nothing here is lost when Redis or the database is away: the tick goes on with
what it can reach, and says once what it cannot.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import redis
from django.db import Error as DatabaseError
from django.db import close_old_connections

from controlplane.exporters.store import ReadingsReader
from controlplane.observability import conductor_heartbeats, metrics
from controlplane.observability.outages import Outages
from controlplane.observability.process import this_process
from controlplane.probes import last_results, recent_traffic
from controlplane.publishing import installation, publisher
from controlplane.publishing.installation import Identity, NotOurRedis
from controlplane.telemetry import (
    frame_builder,
    frame_publisher,
    key_traffic,
    report_reader,
)
from controlplane.telemetry.db_snapshot import DbReader, DbSnapshot
from controlplane.telemetry.frame_publisher import FramePublisherState
from controlplane.telemetry.leader_election import LEASE_MS, Leadership
from controlplane.telemetry.measured_devices import NOTHING_MEASURED, measured_devices
from controlplane.telemetry.measures import HistoryRow, HistorySubject
from controlplane.telemetry.merge import MergeState, merge
from controlplane.telemetry.merged_numbers import Merged
from controlplane.telemetry.minute_collector import MinuteCollector
from controlplane.telemetry.minute_history import MinuteHistory
from controlplane.telemetry.notices.dispatcher import NoticeDispatcher
from controlplane.telemetry.notices.handover import LeaderHandover
from controlplane.telemetry.notices.notice import Observed
from controlplane.telemetry.quiet_replicas import QuietReplicas
from controlplane.telemetry.report_decoder import ReportDecoder
from controlplane.telemetry.report_reader import ReceivedReports
from controlplane.telemetry.scaling import Scalers
from routing.contract.telemetry import WorkerReport

Messages = list[tuple[str, str]]
"""(channel group, frame as JSON)."""

Minutes = Mapping[HistorySubject, HistoryRow]

LONGEST_MERGE_S = 10.0
"""What is in flight now is taken to have been so since the last merge, this long at most."""
COMPARE_AGAIN_S = 30.0
"""While workers refuse a table. It may be as the database says all the same: then nothing can be repaired."""

logger = logging.getLogger(__name__)


class Conductor:
    """Everything one conductor remembers from tick to tick. Used by one thread."""

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
        self._reports = ReportDecoder()
        self._merging = MergeState()
        self._sequence = 0
        self._reader = DbReader()
        self._rows: DbSnapshot | None = None
        self._quiet = QuietReplicas()
        self._readings = ReadingsReader()
        self._measured = NOTHING_MEASURED
        self._outbox = FramePublisherState()
        self._minutes = MinuteCollector()
        self._history = MinuteHistory(client)
        self._merged_at = clock()
        self._scalers = Scalers()
        self._notices = NoticeDispatcher(clock)
        self._answered_ms: dict[str, int] = {}
        self._identity: Identity | None = None
        """As the database last gave it; ``None``: it was away since the start; this one does not lead."""
        self._compared_at = float("-inf")
        """When contents of Redis and database were compared, because a worker refused its table."""
        self._refused = ""
        """Why this conductor may not lead, in words; empty: it may."""

    def tick(self) -> Messages:
        """One second's work; the frames to send to open pages. Never raises for what is merely away."""
        with metrics.TICK_DURATION.time():
            messages = self._tick()
        metrics.CONDUCTOR_TICKS.inc()
        metrics.LEADER.set(self.leads)
        metrics.FRAMES.inc(len(messages))
        this_process.loop_heartbeat.record()
        this_process.ready.set()
        return messages

    def _tick(self) -> Messages:
        began = self._clock()
        close_old_connections()
        messages: Messages = []
        with self._outages_logged("Redis", redis.RedisError):
            self._elect()
            received = report_reader.read(self._client, self._reports.decode)
            self._reports.forget_all_but({one.report.worker for one in received.reports})
            with metrics.MERGE_DURATION.time():
                merged = merge(self._merging, received.reports, self._clock())
            metrics.WORKERS_HEARD.set(len(merged.workers))
            self._note_recent_traffic(received, merged)
            self._minutes.take(merged, min(began - self._merged_at, LONGEST_MERGE_S))
            self._merged_at = began
            ended = self._minutes.ended(self._wall_clock(), self._history.row_s)
            if self.leads:
                messages = self._lead(received, merged, began, ended)
            if not self._refused:
                self._send_heartbeat(began)
            return messages
        self.leads = False
        return []

    def end(self) -> None:
        """Leave, so that another conductor leads at once."""
        with self._outages_logged("Redis", redis.RedisError):
            conductor_heartbeats.remove(self._client, self.name)
            self._leadership.release()
            if self._identity is not None:
                installation.release(self._identity)

    def _elect(self) -> None:
        leads = self._may_lead() and self._leadership.hold()
        if leads and not self.leads:
            logger.info("this conductor leads")
            self._notices.forget()
            self._outbox = FramePublisherState()
            self._sequence = frame_publisher.last_sequence(self._client)
            self._scalers = Scalers()
            self._scalers.begin(frame_publisher.last_desired(self._client), self._clock())
        elif self.leads and not leads:
            logger.info("this conductor no longer leads" if self._refused else "another conductor leads")
            metrics.DESIRED_REPLICAS.clear()
            if self._refused:
                self._leadership.release()
        self.leads = leads

    def _may_lead(self) -> bool:
        """Not in another installation's Redis: its table and its frames are not ours to replace."""
        with self._outages_logged("the database", DatabaseError):
            self._identity = installation.identity()
        refused = ""
        if self._identity is not None:
            try:
                installation.hold(self._identity)
            except NotOurRedis as error:
                refused = str(error)
        if refused and refused != self._refused:
            logger.error("this conductor does not lead, requests go on: %s", refused)
        elif self._refused and not refused:
            logger.warning("this conductor may lead again: Redis is this installation's")
        self._refused = refused
        metrics.REFUSED.set(bool(refused))
        return self._identity is not None and not refused

    def _lead(self, received: ReceivedReports, merged: Merged, began: float, ended: Minutes) -> Messages:
        with self._outages_logged("the database", DatabaseError):
            self._reconcile(merged)
            self._rows = self._reader.read()
            self._track_key_limits(self._rows, merged)
        messages = self._send_frames(received, merged, ended)
        self._history.prune(self._wall_clock())
        self._send_notices(received, merged, began)
        return messages

    def _reconcile(self, merged: Merged) -> None:
        reports = [worker.report for worker in merged.workers.values()]
        now = self._clock()
        if now - self._compared_at >= COMPARE_AGAIN_S and any(map(_refuses, reports)):
            self._compared_at = now
            publisher.compare_again()
        try:
            stored = publisher.publish_all(reports)
        except NotOurRedis as refused:  # since this tick began; the next one steps down
            logger.error("not published: %s", refused)
            return
        if stored:
            metrics.REPAIRS.inc(stored)
            logger.info("%d table messages were missing from Redis and are stored again", stored)

    def _track_key_limits(self, present: DbSnapshot, merged: Merged) -> None:
        limits = {str(key.id): key.limits for key in present.keys}
        changed = key_traffic.follow(self._merging.keys, merged.keys, limits, self._clock())
        self._notices.limits_changed(changed)

    def _send_notices(self, received: ReceivedReports, merged: Merged, began: float) -> None:
        def handover_at(now: float) -> LeaderHandover:
            return LeaderHandover(self._client, now, received.now_ms)

        def may_write() -> bool:
            """Not when so slow that another conductor may lead by now, and tell it."""
            return self._clock() - began <= LEASE_MS / 2000 or self._leadership.hold()

        rows = self._rows
        observed = Observed(
            merged,
            rows.keys if rows is not None else [],
            rows.fleets if rows is not None else [],
            self._measured.defects,
        )
        with self._outages_logged("the event log", DatabaseError):
            self._notices.send(observed, handover_at, may_write)

    def _send_frames(self, received: ReceivedReports, merged: Merged, ended: Minutes) -> Messages:
        pipeline = self._client.pipeline(transaction=True)
        recent_traffic.store(pipeline, self._answered_ms)
        messages: Messages = []
        if self._rows is not None:
            at = self._wall_clock()
            self._sequence += 1
            self._measured = measured_devices(self._readings.read(self._client), at, self._measured)
            probes = last_results.read_unopened(self._client)
            reported = last_results.read_loads(self._client)
            frames = frame_builder.build(
                *(self._rows, merged, probes, reported),
                sequence=self._sequence,
                at=at,
                quiet=self._quiet,
                devices_measured=self._measured,
            )
            self._scalers.follow(frames, self._rows, merged, self._clock())
            messages = frame_publisher.store(pipeline, self._outbox, frames)
            self._history.append(pipeline, ended)
            report_reader.forget(pipeline, received.silent, [fleet.name for fleet in self._rows.fleets])
        pipeline.execute()
        return messages

    def _note_recent_traffic(self, received: ReceivedReports, merged: Merged) -> None:
        oldest = received.now_ms - recent_traffic.RECENT_TRAFFIC_S * 1000
        self._answered_ms = {uid: at for uid, at in self._answered_ms.items() if at >= oldest}
        for fleet in merged.fleets.values():
            for uid, numbers in fleet.replicas.items():
                if numbers.answers:
                    self._answered_ms[uid] = received.now_ms

    def _send_heartbeat(self, began: float) -> None:
        now = self._clock()
        conductor_heartbeats.send(
            self._client,
            conductor_heartbeats.ConductorHeartbeat(
                name=self.name,
                leads=self.leads,
                tick_ms=round((now - began) * 1000, 1),
                away=self._outages.current,
                uptime_s=round(now - self._started, 1),
            ),
        )
        if self.leads:
            conductor_heartbeats.forget_old(self._client)

    @contextmanager
    def _outages_logged(self, what: str, *errors: type[Exception]) -> Iterator[None]:
        """An error of these kinds ends the block; the log says it once, and once when it is over."""
        try:
            yield
        except errors as error:
            self._outages.away(what, error)
        else:
            self._outages.back(what)


def _refuses(report: WorkerReport) -> bool:
    return bool(report.refused_manifest) or any(fleet.refused for fleet in report.fleets)
