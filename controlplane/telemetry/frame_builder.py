"""Frame builder: database rows and merged numbers → the frames that pages show. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.probes.last_results import LastProbe
from controlplane.telemetry import (
    db_snapshot,
    key_traffic,
    learned_service,
    prediction_accuracy,
    quiet_replicas,
    reported_load,
    state_text,
)
from controlplane.telemetry.db_snapshot import AcceleratorRow, DbSnapshot, FleetRow, KeyRow, ReplicaRow
from controlplane.telemetry.frames import (
    AcceleratorLive,
    AffinityLive,
    ClientKeyLive,
    ClientKeysFrame,
    ColdLive,
    DrainedAt,
    ErrorReasonLive,
    FallbackLive,
    FleetFrame,
    FleetSummary,
    MovingLive,
    OverviewFrame,
    Point,
    QueueLive,
    ReplicaLive,
    SiteLive,
    StayingLive,
    WorkerLive,
)
from controlplane.telemetry.key_traffic import KeyNumbers
from controlplane.telemetry.measured_devices import NOTHING_MEASURED, MeasuredDevices, measured
from controlplane.telemetry.merged_numbers import AcceleratorNumbers, FleetNumbers, Merged, ReplicaNumbers
from controlplane.telemetry.quiet_replicas import QuietReplicas
from controlplane.telemetry.second_attempts import second_attempts
from routing.contract.ended_requests import ERROR_REASONS
from routing.contract.load_report import ReportedLoad, younger
from routing.contract.moving import STAYS
from routing.contract.policy import Queue
from routing.contract.startup import expected_duration, usual_duration
from routing.contract.table import Version, unserved_adapters


@dataclass(frozen=True, slots=True)
class Frames:
    """One second's frames; fleets by name."""

    overview: OverviewFrame
    fleets: dict[str, FleetFrame]
    client_keys: ClientKeysFrame


def build(
    rows: DbSnapshot,
    merged: Merged,
    probes: Mapping[str, LastProbe],
    loads: Mapping[str, ReportedLoad],
    *,
    sequence: int,
    at: float,
    quiet: QuietReplicas | None = None,
    devices_measured: MeasuredDevices = NOTHING_MEASURED,
) -> Frames:
    """``probes``, ``loads``: last probe, and last report of its own load, by replica uid. ``at``: Unix
    seconds, shown to people and never subtracted. ``quiet``: what was made of quiet replicas before."""
    quiet = QuietReplicas() if quiet is None else quiet
    quiet.forget_beyond(sum(len(row.replicas) for row in rows.fleets))
    devices = {row.name: _accelerator(row, merged, devices_measured, at) for row in rows.accelerators}
    fleets = {
        row.name: _fleet_frame(row, merged, probes, loads, devices, quiet, sequence=sequence, at=at)
        for row in rows.fleets
    }
    for row in rows.fleets:
        others = [fleets[name].summary for name in row.stand_ins if name in fleets]
        fleets[row.name].summary.covered = any(other.taking for other in others)
    newest = {row.name: row.version for row in rows.fleets}
    overview = OverviewFrame(
        sequence=sequence,
        at=at,
        table=rows.manifest,
        total=_point(merged.total, at),
        replicas=sum(frame.summary.replicas for frame in fleets.values()),
        eligible=sum(frame.summary.eligible for frame in fleets.values()),
        error_percent=merged.total.error_percent,
        refused_per_s=merged.refused_per_s,
        fleets=[frame.summary for frame in fleets.values()],
        workers=_workers(rows, merged, newest),
        accelerators=list(devices.values()),
        hosts=devices_measured.hosts,
    )
    client_keys = ClientKeysFrame(
        sequence=sequence,
        at=at,
        table=rows.manifest,
        workers=len(merged.workers),
        keys=[
            _client_key(row, numbers)
            for row in rows.keys
            if (numbers := merged.keys.get(str(row.id))) is not None and numbers.used
        ],
    )
    return Frames(overview, fleets, client_keys)


def _client_key(row: KeyRow, numbers: KeyNumbers) -> ClientKeyLive:
    return ClientKeyLive(
        id=row.id,
        name=row.name,
        rps=numbers.rps,
        limited_per_s=numbers.limited_per_s,
        in_flight=numbers.in_flight,
        requests=numbers.requests,
        tokens=numbers.tokens,
        at_limit=key_traffic.at_limit(numbers, row.limits),
        errors=numbers.errors,
        p50_s=numbers.p50_s,
        p95_s=numbers.p95_s,
        p99_s=numbers.p99_s,
        first_token_p95_s=numbers.first_token_p95_s,
    )


def _accelerator(row: AcceleratorRow, merged: Merged, found: MeasuredDevices, at: float) -> AcceleratorLive:
    numbers = merged.accelerators.get(row.name) or AcceleratorNumbers()
    return AcceleratorLive(
        name=row.name,
        memory_bytes=row.memory_bytes,
        usable_bytes=row.usable_bytes,
        held_bytes=row.held_bytes,
        leased_bytes=numbers.leased_bytes if merged.workers else None,
        lease_waits=numbers.lease_waits,
        measured=measured(
            *(found, row.name, at),
            memory_bytes=row.memory_bytes,
            held_bytes=row.held_bytes,
            leased_bytes=numbers.leased_bytes,
        ),
    )


def _fleet_frame(
    row: FleetRow,
    merged: Merged,
    probes: Mapping[str, LastProbe],
    loads: Mapping[str, ReportedLoad],
    devices: Mapping[str, AcceleratorLive],
    quiet: QuietReplicas,
    *,
    sequence: int,
    at: float,
) -> FleetFrame:
    numbers = merged.fleets.get(row.name) or FleetNumbers(row.name)
    known_start_s = usual_duration([replica.startup_s for replica in row.replicas])
    picks = sum(replica.window_requests for replica in numbers.replicas.values())
    here = {replica.site for replica in row.replicas}
    failed, now = quiet_replicas.failed(probes), db_snapshot.wall_clock()
    replicas = []
    for replica in row.replicas:
        found, load = numbers.replicas.get(replica.uid), loads.get(replica.uid)
        may_be_quiet = load is None and replica.uid not in failed
        live = quiet.unchanged(replica, row, found, now) if may_be_quiet else None
        key = quiet_replicas.key_of(replica, row, found) if may_be_quiet and live is None else None
        if key is not None:
            live = quiet.known(replica, row, found, key)
        if live is None:
            live = _replica(
                replica,
                row,
                found or ReplicaNumbers(replica.uid, replica.name),
                probes.get(replica.uid),
                load,
                devices,
                startup_s=expected_duration(replica.startup_s, known_start_s),
                when=state_text.when_asked(replica, row, numbers, here),
                picks=picks,
            )
            if key is not None:
                quiet.keep(replica, row, found, key, live)
        replicas.append(live)
    return FleetFrame(
        sequence=sequence,
        at=at,
        table=row.version,
        summary=_summary(row, numbers, replicas),
        point=_point(numbers, at),
        replicas=replicas,
        workers=len(merged.workers),
        workers_current=sum(not _older(applied, row.version) for applied in numbers.applied.values()),
        serves=learned_service.serves(numbers.shape, row.serves),
        predictions=prediction_accuracy.predictions(numbers.told),
        second_attempts=second_attempts(numbers.told),
        errors=_errors(numbers.lately_failed),
    )


def _replica(
    row: ReplicaRow,
    of: FleetRow,
    numbers: ReplicaNumbers,
    probe: LastProbe | None,
    load: ReportedLoad | None,
    devices: Mapping[str, AcceleratorLive],
    *,
    startup_s: float | None,
    when: str,
    picks: int,
) -> ReplicaLive:
    """``when``: it is asked, in words. ``picks``: of all replicas of its fleet, within the window."""
    starts = row.health != "ready" and row.starting
    short = state_text.memory_shortage(row, devices)
    return ReplicaLive(
        name=row.name,
        eligible=state_text.eligible(row, numbers),
        state=state_text.state(row, numbers),
        why=state_text.why(row, numbers, probe, short, when, startup_s=startup_s if starts else None),
        admin_state=row.admin_state,
        health=row.health,
        ejected=numbers.ejected_by > 0,
        weight=row.weight,
        rps=numbers.rps,
        share_percent=100 * numbers.window_requests / picks if picks else 0.0,
        in_flight=numbers.in_flight,
        max_concurrency=row.max_concurrency,
        p50_s=numbers.p50_s,
        p99_s=numbers.p99_s,
        errors_per_s=numbers.errors_per_s,
        seconds_per_work=numbers.seconds_per_work,
        p95_s=numbers.p95_s,
        first_token_p50_s=numbers.first_token.p50_s,
        first_token_p99_s=numbers.first_token.p99_s,
        between_tokens_p50_s=numbers.between_tokens.p50_s,
        between_tokens_p99_s=numbers.between_tokens.p99_s,
        input_tokens_per_s=numbers.input_tokens_per_s,
        output_tokens_per_s=numbers.output_tokens_per_s,
        failures=numbers.failures,
        learned=learned_service.scale(numbers.learned),
        drained_by_hand=_drained_at(numbers),
        drained_everywhere=numbers.drained_everywhere,
        move=row.move,
        moving=_moving(numbers) if of.continues or row.move else None,
        no_credential=state_text.no_credential(numbers),
        locked_out=state_text.locked_out(numbers),
        memory_short=short,
        doubt=state_text.doubt(numbers),
        reported=reported_load.live(younger(load, numbers.reported)),
        expected_in_s=max(startup_s - row.health_for_s, 0.0) if starts and startup_s is not None else None,
    )


def _errors(by_reason: Mapping[str, int]) -> list[ErrorReasonLive]:
    return [
        ErrorReasonLive(reason=reason, words=ERROR_REASONS.get(reason, reason), requests=requests)
        for reason, requests in sorted(by_reason.items(), key=lambda one: (-one[1], one[0]))
    ]


def _moving(numbers: ReplicaNumbers) -> MovingLive:
    staying = sorted(numbers.staying.items(), key=lambda one: (-one[1], one[0]))
    return MovingLive(
        movable=numbers.movable,
        movable_prompt_tokens=numbers.movable_prompt_tokens,
        staying=[
            StayingLive(reason=reason, requests=requests, words=STAYS.get(reason, reason))
            for reason, requests in staying
        ],
        moved=numbers.moved,
        moved_prompt_tokens=numbers.moved_prompt_tokens,
    )


def _sites(fleet: FleetNumbers) -> list[SiteLive]:
    """Of those whose proxies prefer their own and have sent something."""
    return [
        SiteLive(name=name, stayed_per_s=site.stayed_per_s, spilled_per_s=site.spilled_per_s)
        for name, site in sorted(fleet.sites.items())
        if site.stayed_per_s or site.spilled_per_s
    ]


def _drained_at(numbers: ReplicaNumbers) -> list[DrainedAt]:
    places = sorted(numbers.drained_at.items())
    return [DrainedAt(proxy=proxy, expires_in_s=left_s) for proxy, left_s in places]


def _summary(row: FleetRow, numbers: FleetNumbers, replicas: list[ReplicaLive]) -> FleetSummary:
    limits = [replica.max_concurrency for replica in replicas if replica.eligible]
    known = [limit for limit in limits if limit is not None]
    cold = _cold(replicas)
    return FleetSummary(
        name=row.name,
        protocol=row.protocol,
        aliases=row.aliases,
        adapters=row.adapters,
        strategy=row.strategy,
        revision=row.revision,
        rps=numbers.rps,
        p50_s=numbers.p50_s,
        p99_s=numbers.p99_s,
        error_percent=numbers.error_percent,
        output_tokens_per_s=numbers.output_tokens_per_s,
        input_tokens_per_s=numbers.input_tokens_per_s,
        retries_per_s=numbers.retries_per_s,
        ejections_per_s=numbers.ejections_per_s,
        first_token_p50_s=numbers.first_token.p50_s,
        first_token_p99_s=numbers.first_token.p99_s,
        between_tokens_p50_s=numbers.between_tokens.p50_s,
        error_reasons=numbers.error_reasons,
        in_flight=numbers.in_flight,
        queue=_queue(row.queue, numbers, cold is not None),
        affinity=AffinityLive(
            kept_per_s=numbers.kept_per_s,
            spilled_per_s=numbers.spilled_per_s,
            new_per_s=numbers.new_per_s,
        ),
        sites=_sites(numbers),
        fallbacks=[
            FallbackLive(fleet=to, per_s=one.per_s, causes=one.causes)
            for to, one in sorted(numbers.fallbacks.items())
        ],
        no_fallback=numbers.no_fallback,
        capacity=sum(known) if len(known) == len(limits) else None,
        replicas=len(replicas),
        eligible=sum(replica.eligible for replica in replicas),
        taking=sum(replica.eligible and replica.weight > 0 for replica in replicas),
        cold=cold,
        states=dict(Counter(replica.state for replica in replicas)),
        would_refuse=None if row.has_expose else numbers.would_refuse,
        unserved_adapters=unserved_adapters(row.adapters, (replica.adapters for replica in row.replicas)),
    )


def _cold(replicas: list[ReplicaLive]) -> ColdLive | None:
    """Cold as proxies see it: no replica is eligible, and one that would be is still checking."""
    if any(replica.eligible and replica.weight > 0 for replica in replicas):
        return None
    checked = [replica for replica in replicas if replica.state == "checking" and replica.weight > 0]
    loading = [replica for replica in checked if not replica.locked_out]
    if not loading:
        return None
    known = [replica.expected_in_s for replica in loading if replica.expected_in_s is not None]
    return ColdLive(loading=len(loading), expected_in_s=min(known, default=None))


def _point(numbers: FleetNumbers, at: float) -> Point:
    return Point(
        at=at,
        rps=numbers.rps,
        p50_s=numbers.p50_s,
        p99_s=numbers.p99_s,
        errors_per_s=numbers.errors_per_s,
        in_flight=numbers.in_flight,
        waiting=numbers.queue.waiting,
        first_byte_p50_s=numbers.first_byte.p50_s,
        first_byte_p95_s=numbers.first_byte.p95_s,
        first_byte_p99_s=numbers.first_byte.p99_s,
        output_tokens_per_s=numbers.output_tokens_per_s,
        p95_s=numbers.p95_s,
        first_token_p50_s=numbers.first_token.p50_s,
        first_token_p95_s=numbers.first_token.p95_s,
        first_token_p99_s=numbers.first_token.p99_s,
        between_tokens_p50_s=numbers.between_tokens.p50_s,
        between_tokens_p95_s=numbers.between_tokens.p95_s,
        between_tokens_p99_s=numbers.between_tokens.p99_s,
        queue_p50_s=numbers.waits.p50_s,
        queue_p95_s=numbers.waits.p95_s,
        queue_p99_s=numbers.waits.p99_s,
        input_tokens_per_s=numbers.input_tokens_per_s,
        retries_per_s=numbers.retries_per_s,
        ejections_per_s=numbers.ejections_per_s,
        error_reasons=numbers.error_reasons,
    )


def _queue(policy: Queue, fleet: FleetNumbers, cold: bool) -> QueueLive:
    numbers = fleet.queue
    timeout_s = policy.cold_timeout_s if cold and policy.cold == "hold" else policy.timeout_s
    size = policy.size * max(len(numbers.proxies), 1)
    return QueueLive(
        waiting=min(numbers.waiting, size),  # workers report a moment after each other
        size=size,
        oldest_wait_s=numbers.oldest_wait_s,
        timeout_s=timeout_s,
        state=state_text.queue_state(numbers, timeout_s),
        holds=policy.cold == "hold",
        queued_per_s=numbers.queued_per_s,
        full_per_s=numbers.full_per_s,
        late_per_s=numbers.late_per_s,
        cold_per_s=numbers.cold_per_s,
        p50_s=numbers.p50_s,
        p99_s=numbers.p99_s,
        short_for_s=numbers.short_for_s,
    )


def _workers(rows: DbSnapshot, merged: Merged, newest: Mapping[str, str]) -> list[WorkerLive]:
    found = []
    for name, worker in sorted(merged.workers.items()):
        report = worker.report
        applied = {fleet.name: fleet.applied for fleet in report.fleets}
        refused = [report.refused_manifest] if report.refused_manifest else []
        refused += [f"{fleet.name}: {fleet.refused}" for fleet in report.fleets if fleet.refused]
        trouble = [f"{one.name}: {one.strategy_trouble}" for one in report.fleets if one.strategy_trouble]
        behind = _older(report.manifest, rows.manifest) or any(
            _older(applied.get(fleet, "0:0"), version) for fleet, version in newest.items()
        )
        found.append(
            WorkerLive(
                name=name,
                age_s=worker.age_s,
                applied=report.manifest,
                behind=behind,
                refused="; ".join(refused),
                strategy_trouble="; ".join(trouble),
                redis_ok=report.redis_ok,
                cpu_percent=worker.cpu_percent,
                clients=report.clients,
            )
        )
    return found


def _older(applied: str, newest: str) -> bool:
    """A worker may also be *newer* than the rows read a moment ago. What cannot be read is old."""
    try:
        return Version.parse(applied) < Version.parse(newest)
    except ValueError:
        return True
