"""Small settings, and that every request of a run has ended exactly once."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from routing.contract.policy import Policy, Queue
from routing.simulator.fleets import UNEQUAL, fixed_slots
from routing.simulator.proxies import SimulatedExchange
from routing.simulator.requests import ENDS
from routing.simulator.results import Result
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import BIMODAL, Traffic

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """``run("random", load=0.5, faults=[…], proxies=3)``; afterwards all requests must have ended once."""
    ended: Counter[int] = Counter()
    end = SimulatedExchange._end

    def counted(self: SimulatedExchange, how: str, now: float) -> None:
        ended[id(self._request)] += 1
        end(self, how, now)

    monkeypatch.setattr(SimulatedExchange, "_end", counted)
    results: list[Result] = []

    def one(
        strategy: str = "least_expected_work",
        speeds: tuple[float, ...] = UNEQUAL,
        at: str = "replica",
        limits: bool = True,
        policy: Policy | None = None,
        **given: Any,
    ) -> Result:
        traffic = {
            key: given.pop(key) for key in ("load", "duration_s", "seed", "cv", "profile") if key in given
        }
        setting = Setting(
            fleet=given.pop("fleet", None) or fixed_slots(speeds, limits=limits),
            workload=given.pop("workload", BIMODAL),
            traffic=Traffic(**{"duration_s": 3.0, **traffic}),
            policy=policy or Policy(queue=Queue(at=at)),  # type: ignore[arg-type]
            **given,
        )
        results.append(simulate(setting, strategy))
        return results[-1]

    yield one
    for result in results:
        assert {request.end for request in result.requests} <= {*ENDS}
        assert all(request.ended_s >= request.at_s for request in result.requests)
    assert set(ended.values()) <= {1}
    assert ended.total() == sum(len(one.requests) for one in results if one.strategy != "central_fifo")
