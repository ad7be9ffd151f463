"""Where a replica fails: alone, beside a healthy one, in a fleet that falls back. One line each.

Time limits are a thirtieth of the defaults, and of what a fault waits. Only a plain request to a silent
replica meets ``total_s``.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

import msgspec

from routing.contract.policy import Policy
from routing.contract.probe import Probe
from tests.routing.proxy.answers.calls import CHAT, Call
from tests.routing.proxy.answers.faults import Asked, Behaviour, Fault, healthy, is_silent
from tests.routing.proxy.rig import LIMIT_S, Answer, ReplicaConnection, Rig, Seen

SHORT = {"connect_s": LIMIT_S, "first_byte_s": 2.0, "idle_s": 2.0, "stall_s": 1.0}
TOTAL_S = 3.0
PROMPT_TOKENS = {"failing": 7, "beside": 11, "fallback": 13}
"""As each server counts the same prompt."""
CAUSES = [
    *("no_eligible_replica", "no_place", "replicas_failed", "first_token", "context_length_exceeded"),
]


@dataclass(frozen=True)
class Setup:
    """``beside``: whether a healthy replica is beside the failing one. ``policy``: of their fleet, besides
    the defaults."""

    name: str
    words: str
    beside: bool
    policy: dict[str, Any]


ALONE = Setup("alone", "alone", False, {})
BESIDE = Setup("beside", "beside a healthy replica", True, {})
RESCUED = Setup(
    "rescued",
    "so, with `continuation: auto` and `first_token_limit_s`",
    True,
    {"continuation": "auto", "first_token_limit_s": 0.4},
)
FALLBACK = Setup(
    "fallback",
    "alone, with a fallback fleet",
    False,
    {"fallback": [{"fleet": "other", "causes": CAUSES}]},
)
TOGETHER = Setup("together", "all of these together", True, RESCUED.policy | FALLBACK.policy)
SETUPS = [ALONE, BESIDE, RESCUED, FALLBACK, TOGETHER]


class Scene:
    """A fleet with a failing replica: that which is asked first."""

    def __init__(self, rig: Rig, fault: Fault, setup: Setup, call: Call = CHAT) -> None:
        self.rig, self.fault, self.setup, self.call = rig, fault, setup, call
        self.roles: dict[str, str] = {}
        """By name of a replica: ``failing``, ``beside`` or ``fallback``."""
        self._asked: dict[str, int] = {}

    async def start(self, stream: bool, **more: Any) -> Scene:
        """``stream``: whether its requests are streamed. ``more``: of the fleet's policy."""
        replicas = [await self.rig.replica() for _ in range(1 + self.setup.beside)]
        fields = {**self.setup.policy, **more}
        timeouts = SHORT | ({"total_s": TOTAL_S} if self.fault.fails is is_silent and not stream else {})
        if "fallback" in fields:
            other = await self.rig.replica("other")
            self.roles[other.name] = "fallback"
            other.script = self._script
            self.rig.fleet(other, name="other", protocol="openai", policy=_policy(SHORT), default=False)
        for replica in replicas:
            replica.script = self._script
        probe = Probe(preset="vllm")
        self.rig.fleet(*replicas, protocol="openai", probe=probe, policy=_policy(timeouts, **fields))
        for known in self.rig.table.fleets["f"].replicas:
            known.continuation.chats = known.continuation.completions = True
            known.continuation.due = inf
        return self

    async def _script(self, connection: ReplicaConnection, seen: Seen) -> None:
        name = connection.replica.name
        role = self.roles.setdefault(name, "beside" if "failing" in self.roles.values() else "failing")
        number = self._asked.get(name, 0)
        self._asked[name] = number + 1
        does: Behaviour = {"failing": self.fault.fails, "beside": self.fault.other}.get(role, healthy)
        await does(Asked(self.call, connection, json.loads(seen.body), PROMPT_TOKENS[role], number))

    def asked(self, role: str) -> int:
        """Requests that came to a replica with this role."""
        return sum(self._asked.get(name, 0) for name, known in self.roles.items() if known == role)

    async def ask(self, stream: bool) -> Answer:
        """One request's answer, while time passes as in a worker."""
        client = await self.rig.client()
        client.send(self.call.request(stream, "f"))
        answering = asyncio.create_task(client.answer(b"POST"))
        while not answering.done():
            await asyncio.wait([answering], timeout=0.05)
            for pool in self.rig.table.fleets.values():
                pool.refresh(monotonic())
        return answering.result()

    def served_by(self, answer: Answer) -> str:
        """The role of the replica that the answer is from."""
        return self.roles[answer.get(b"x-switchyard-replica")[0].decode()]


def _policy(timeouts: dict[str, float], **fields: Any) -> Policy:
    given = {"strategy": "round_robin", "slow_start_s": 0, "timeouts": timeouts, **fields}
    return msgspec.convert(given, Policy)
