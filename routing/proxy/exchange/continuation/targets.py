"""Targets: the replicas that may continue what a replica has begun.

Those of the same version whose trial has passed (:mod:`routing.proxy.continuation_trials`). A fleet has one
model, and which adapters a request needs is seen to when its replica is picked.
"""

from __future__ import annotations

from collections.abc import Collection

from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.protocols.continuation.next_request import CHAT, Prefill

_PREFILL: dict[str, Prefill] = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llama.cpp"}


def prefill_of(pool: Pool) -> Prefill:
    """How chats are continued, by the fleet's probe preset."""
    return _PREFILL.get(pool.snapshot.probe.preset, "")


def can_continue(replica: Replica, call: bytes) -> bool:
    """Whether its trial has passed."""
    trial = replica.continuation
    return (trial.chats if call == CHAT else trial.completions) is True


def unfit(pool: Pool, version: str, tried: Collection[Replica], call: bytes) -> tuple[Replica, ...]:
    """The replicas that must not continue what one of this version has said; all of them: none may.
    ``tried``: those that have failed at it, or are to be left."""
    return tuple(
        replica
        for replica in pool.replicas
        if replica in tried or replica.spec.version != version or not can_continue(replica, call)
    )
