"""Learned service, for pages and the API: how fast replicas are, and whether they have slots. Pure."""

from controlplane.telemetry.frames import LearnedLive, ServesLive
from routing.contract.learned_service import EVIDENCE_REQUESTS, MOSTLY, LearnedShape
from routing.contract.policy import Serves
from routing.contract.telemetry import LearnedScale

_KINDS = {
    "slots": "slots: load does not slow requests",
    "batches": "batches: each further request slows all",
    "between": "between slots and batches: load slows requests a little",
}


def scale(learned: LearnedScale | None) -> LearnedLive | None:
    """Of one replica over all workers."""
    if learned is None:
        return None
    return LearnedLive(
        times_usual=learned.times_usual,
        error=learned.error,
        request_s=learned.request_s,
        requests=learned.requests,
        is_known=learned.requests >= EVIDENCE_REQUESTS,
    )


def serves(shape: LearnedShape | None, stated: Serves) -> ServesLive | None:
    """Of one fleet over all workers. ``stated``: what its policy says."""
    if shape is None:
        return None
    basis = _basis(shape, stated)
    return ServesLive(
        kind=shape.kind,
        basis=basis,
        words=_KINDS[shape.kind],
        how_known=_how_known(shape, basis),
        growth=shape.growth,
        growth_error=shape.growth_error,
        batching=shape.batching,
    )


def _basis(shape: LearnedShape, stated: Serves) -> str:
    if stated != "auto":
        return "stated"
    return "learned" if shape.evidence >= MOSTLY else "assumed"


def _how_known(shape: LearnedShape, basis: str) -> str:
    error_percent = 100.0 * (shape.growth_error - 1.0)
    measured = f"with twice the load a request takes {shape.growth:.2f} × as long, ± {error_percent:.0f} %"
    if basis == "assumed":
        return "assumed from the protocol and the probe; not learned yet"
    if basis == "learned":
        return f"learned: {measured}"
    return (
        f"stated by the policy; learned: {measured}" if shape.evidence >= MOSTLY else "stated by the policy"
    )
