"""Smooth weighted round robin.

Theory. Every replica has a running credit. At each pick all candidates earn their weight, the one
with the most credit is taken and pays the sum of all weights. Over any whole number of rounds each
replica gets exactly its share, and picks of one replica are spread out instead of coming in a row:
weights 5, 1, 1 give a a b a c a a.

Source: nginx, ``ngx_http_upstream_round_robin`` (smooth weighted balancing, 2012).

Weakness: blind to load, to the size of requests and to a replica that has become slow.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory, NoParameters
from routing.balancing.strategies.smooth_wrr import SmoothWeightedRoundRobin


class RoundRobin(SmoothWeightedRoundRobin):
    """Takes turns by weight. The credit is kept in ``Replica.wrr_credit``."""

    name: ClassVar[str] = "round_robin"
    sentence: ClassVar[str] = (
        "Takes turns, each replica as often as its weight says; blind to load and speed."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = NoParameters
    memory: AnswerMemory | None = None
    affinity: Affinity | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        super().__init__()

    @staticmethod
    def weights(replicas: Sequence[Replica]) -> list[float]:
        return [replica.share for replica in replicas]
