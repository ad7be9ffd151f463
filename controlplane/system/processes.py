"""Processes of the control plane: each as it is. Pure."""

from collections.abc import Sequence

from msgspec.structs import asdict

from controlplane.observability.conductor_heartbeats import LIVE_S as CONDUCTOR_LIVE_S
from controlplane.observability.conductor_heartbeats import ConductorLive
from controlplane.observability.process_heartbeats import LIVE_S, LiveProcess, ProcessHeartbeat
from controlplane.system.status import ComponentStatus, ProcessStatus, ProxyWorkerStatus, other_version
from controlplane.telemetry import durations

LOOP_LATE_S = 10.0
ROUNDED_S = 1.0
"""Heartbeats come once a second."""
SLOW_TICK_MS = 1000.0
CLOCK_OFF_S = 5.0
"""A worker drops ticks of the schedule that look older than 15 s."""
TITLES = {"web": "web process", "worker": "Celery worker", "beat": "beat", "conductor": "conductor"}


def rows(
    seen: Sequence[LiveProcess], conductors: Sequence[ConductorLive], software: str
) -> list[ProcessStatus]:
    """By role, then by name."""
    of_conductors = {
        each.heartbeat.name: each.heartbeat for each in seen if each.heartbeat.role == "conductor"
    }
    found = [_row(each, software) for each in seen if each.heartbeat.role != "conductor"]
    found += [_conductor(each, of_conductors.get(f"conductor/{each.heartbeat.name}")) for each in conductors]
    for role in TITLES:
        mark_replaced([row for row in found if row.role == role])
    roles = list(TITLES)
    return sorted(found, key=lambda row: (roles.index(row.role) if row.role in roles else 9, row.name))


def is_live(row: ProcessStatus | ProxyWorkerStatus) -> bool:
    return row.state not in ("silent", "replaced")


def mark_replaced(rows: Sequence[ProcessStatus | ProxyWorkerStatus]) -> None:
    """Of these processes of one kind, those that have gone silent and are followed by one that was started
    later are no trouble any more. Each follows one at most: where two have gone and one has come, one lacks.
    """
    followers = sorted(rows, key=lambda row: row.uptime_s + row.age_s)
    for gone in sorted((row for row in rows if not is_live(row)), key=lambda row: row.age_s):
        latest_start = gone.age_s + ROUNDED_S
        later = (row for row in followers if row is not gone and row.uptime_s + row.age_s <= latest_start)
        follower = next(later, None)
        if follower is not None:
            followers.remove(follower)
            gone.level, gone.state, gone.cure = "calm", "replaced", ""
            gone.words = f"It stopped {durations.words(gone.age_s)} ago; {follower.name} has taken its place."


def _row(seen: LiveProcess, software: str) -> ProcessStatus:
    heartbeat = seen.heartbeat
    return ProcessStatus(
        **asdict(_assess(heartbeat, seen.age_s, software)),
        name=heartbeat.name.partition("/")[2],
        role=heartbeat.role,
        software=heartbeat.software,
        age_s=round(seen.age_s, 2),
        uptime_s=heartbeat.uptime_s,
        cpu_percent=heartbeat.cpu_percent,
        memory_bytes=heartbeat.memory_bytes,
    )


def _assess(heartbeat: ProcessHeartbeat, age_s: float, software: str) -> ComponentStatus:
    if age_s > LIVE_S:
        return ComponentStatus(
            level="warn",
            state="silent",
            words=f"No heartbeat for {durations.words(age_s)}: it has stopped, or cannot reach Redis.",
            cure="Check its log. A process that has stopped leaves this list after 5 min.",
        )
    if heartbeat.loop_age_s > LOOP_LATE_S:
        stuck_for = durations.words(heartbeat.loop_age_s)
        return ComponentStatus(
            level="bad",
            state="stuck",
            words=f"It is running, but its main loop has not run for {stuck_for}.",
            cure="Check its log; restart it if this lasts.",
        )
    if abs(heartbeat.clock_ahead_s) > CLOCK_OFF_S:
        off_by = durations.words(abs(heartbeat.clock_ahead_s))
        way = "ahead of" if heartbeat.clock_ahead_s > 0 else "behind"
        return ComponentStatus(
            level="warn",
            state="clock",
            words=(
                f"The clock of its host is {off_by} {way} that of Redis: times on pages are wrong, and where "
                "a Celery worker and beat differ by more than 15 s no replica is probed."
            ),
            cure="Synchronise the clocks of its host and of Redis's (NTP).",
        )
    if heartbeat.software != software:
        return other_version("well", heartbeat.software, software)
    return ComponentStatus(
        level="calm", state="well", words=f"Its main loop last ran {heartbeat.loop_age_s:.1f} s ago."
    )


def _conductor(each: ConductorLive, process: ProcessHeartbeat | None) -> ProcessStatus:
    """Judged by its own heartbeat; ``process``, that of its process, adds what that does not tell."""
    heartbeat = each.heartbeat
    return ProcessStatus(
        **asdict(_assess_conductor(each)),
        name=heartbeat.name,
        role="conductor",
        software=process.software if process else "",
        age_s=round(each.age_s, 2),
        uptime_s=heartbeat.uptime_s,
        cpu_percent=process.cpu_percent if process else None,
        memory_bytes=process.memory_bytes if process else None,
    )


def _assess_conductor(each: ConductorLive) -> ComponentStatus:
    heartbeat = each.heartbeat
    role = "leads" if heartbeat.leads else "stands by"
    if each.age_s > CONDUCTOR_LIVE_S:
        return ComponentStatus(
            level="warn",
            state="silent",
            words=f"No tick for {durations.words(each.age_s)}: it has stopped or is stuck.",
            cure="Check its log. A conductor that has stopped leaves this list after 5 min.",
        )
    if heartbeat.away:
        return ComponentStatus(
            level="warn", state=role, words=f"It {role}, and cannot reach {', '.join(heartbeat.away)}."
        )
    if heartbeat.tick_ms > SLOW_TICK_MS:
        return ComponentStatus(
            level="warn",
            state="slow",
            words=f"It {role}, but its last tick took {heartbeat.tick_ms:.0f} ms of the 1000 ms that it has.",
            cure="Give it more CPU, or check how slow the database and Redis are.",
        )
    return ComponentStatus(
        level="calm", state=role, words=f"It {role}; its last tick took {heartbeat.tick_ms:.0f} ms."
    )
