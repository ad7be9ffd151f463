"""Load report (ORCA) of a replica for pages, in figures and as text. Pure."""

from msgspec.structs import replace

from controlplane.telemetry.frames import ReportedLive
from routing.contract.load_report import ReportedLoad

SHOWN_S = 60.0
"""An older report says nothing about now."""
GIB = 2**30


def live(load: ReportedLoad | None) -> ReportedLive | None:
    if load is None or load.age_s > SHOWN_S:
        return None
    return ReportedLive(
        words=words(load),
        short="" if load.problem else short(load),
        age_s=load.age_s,
        running=load.running,
        waiting=load.waiting,
        kv_share=load.kv_share,
        memory_share=load.memory_share,
        memory_bytes=load.memory_bytes,
        utilization=load.utilization,
        requests_per_s=load.requests_per_s,
        problem=load.problem,
    )


def words(load: ReportedLoad) -> str:
    """``12 running, 3 waiting, KV 81 %``."""
    if load.problem:
        return f"no load: {load.problem}"
    parts = [
        _part(load.running, "{} running"),
        _part(load.waiting, "{} waiting"),
        _part(load.kv_share, "KV\u00a0{:.0%}"),
        _memory(load),
        _part(load.utilization, "{:.0%} utilized"),
        _part(load.requests_per_s, "{:.3g} req/s"),
    ]
    return ", ".join(part for part in parts if part).replace("%", "\u00a0%")


def short(load: ReportedLoad) -> str:
    """``12 + 3, KV 81 %``: running, waiting, and what else there is."""
    running, waiting = load.running, load.waiting
    requests = _part(running, "{}") if not waiting else f"{running or 0} + {waiting}"
    rest = words(replace(load, running=None, waiting=None))
    return ", ".join(part for part in (requests, rest) if part)


def _memory(load: ReportedLoad) -> str:
    if load.memory_share is not None:
        return f"memory\u00a0{load.memory_share:.0%}"
    if load.memory_bytes is None:
        return ""
    return f"{load.memory_bytes / GIB:.1f} GiB of memory" if load.memory_bytes else "not in memory"


def _part(figure: float | None, text: str) -> str:
    return "" if figure is None else text.format(figure)
