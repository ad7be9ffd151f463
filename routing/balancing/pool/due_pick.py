"""Deadline-aware pick (SLO-aware routing): another replica than the strategy's, where it is likelier in time.

Theory. The strategy spreads the load so that all are served soon, and its choice stands wherever it is good
enough. That a request is due at a certain time changes it only where that matters, and at a price:

1. If the strategy's choice is in time with a chance of :data:`ENOUGH` (the upper end of the 80 % interval of
   :mod:`routing.balancing.learning.predictions`), or so near to it that no other replica can be worth more
   than :data:`LEAST_WORTH`, it is taken.
2. Else another replica is worth by what its chance is larger (up to ``ENOUGH``, and as far as such
   differences have come true, :mod:`routing.balancing.learning.odds`), less its price. Among those that are
   worth about as much as the best, and at least :data:`LEAST_WORTH`, the fleet's strategy picks by its own
   rule.
3. Else, with nothing to gain, the strategy's choice stands.

The price is what the others lose, in the same unit. It has two parts:

- *Congestion.* By how much the replica is more congested than the strategy's choice, in parts, over
  :data:`PAYS`. This is the bound on load: for a gain of 1 a replica may be ``1 + PAYS`` times as congested.
  Congestion is ``m · (n + 1)`` of a batching server, ``m`` being its learned seconds per unit of work and
  ``n`` the requests there; of one with slots it is what the requests beyond them add.
- *Displacement.* Requests that are just in time at a replica are late if more are sent there. How many that
  are is the mean *sensitivity* of the requests there: by how much their chance falls if they take a little
  longer. :data:`HARM` times that, as far as it is larger than at the strategy's choice, is the price of a
  place. Where requests are short, or far from due, it is nothing, and those that need a fast replica may have
  it. Where all requests need the same fast replicas it is high, and they are spread by the strategy: whoever
  is moved there is in time at the cost of another.

So many are exceptions at most as :data:`MOST_MOVED` says: if more go elsewhere than the strategy sends them,
what a replica must be worth rises with their share, and those with most to gain go first. If nearly all would
gain by the same move, as where nothing tells large requests from small ones, the fast replicas' speed is soon
not what it was, and the gain is at others' cost.

A request that is late wherever it goes gains nothing, so it takes no place from one that has a chance. That
it would is what makes serving the most urgent first collapse under overload (the domino effect).

Source: Buttazzo, "Hard Real-Time Computing Systems" (2011), ch. 9, on overload and value; prices of a shared
resource are its Lagrange multipliers (Kelly, Maulloo and Tan, "Rate control for communication networks",
1998). That the two parts are enough, and the constants, are from our own simulations. Failure mode: chances
are as good as predictions. Where lengths are unknown they hardly differ between replicas, and the strategy's
choice stands.
"""

from collections.abc import Sequence
from math import inf
from random import Random
from typing import NamedTuple

from routing.balancing.learning.odds import Odds
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.sampling import SAMPLE, sample

ENOUGH = 0.9
"""Chance of being in time that nobody asks for more of."""
LEAST_WORTH = 0.25
"""Of a replica, for the strategy's choice not to be taken."""
ALIKE = 0.05
"""Replicas whose worth differs by no more are left to the strategy."""
PAYS = 0.3
"""How much more congested a replica may be for a gain of 1, in parts."""
HARM = 3.0
"""How much longer the requests at a replica take for a place there, as a logarithm, added up."""
MOST_MOVED = 0.07
"""Share of the requests that are due: what goes elsewhere beyond that has to be worth more."""
_SHARE_RENEWAL = 0.01
RENEWAL = 0.05
"""Share of the newest request in a replica's mean sensitivity."""


class Due(NamedTuple):
    """When a request is to be done, in monotonic seconds; inf: it does not matter."""

    end: float = inf
    """Its client stops waiting."""
    first_token: float = inf
    """The first token of its stream should have come."""


class MovedShare:
    """How many of a fleet's requests that are due go elsewhere than the strategy would send them."""

    __slots__ = ("_share",)

    def __init__(self) -> None:
        self._share = 0.0

    def count(self, moved: bool) -> None:
        self._share += _SHARE_RENEWAL * (moved - self._share)

    @property
    def least_worth(self) -> float:
        """What it takes now: more if many were moved lately."""
        return LEAST_WORTH * max(1.0, self._share / MOST_MOVED)


def worth_it(
    own: Replica,
    candidates: Sequence[Replica],
    odds: Odds,
    rng: Random,
    only_free: bool,
    least_worth: float = LEAST_WORTH,
) -> list[Replica]:
    """Those of the candidates that are to be taken instead of the strategy's ``own`` choice; empty: none.
    ``only_free``: the request is not to wait for a slot there. ``least_worth``: see :class:`MovedShare`."""
    own_times = odds.times(own)
    chance, trust = odds.chance(own_times), odds.trust
    most = trust * (ENOUGH - chance)
    if most < least_worth:
        return []
    base, harm = congestion(own), own.due_sensitivity
    pays = PAYS * base or 1.0
    found: list[tuple[float, Replica]] = []
    best = least_worth
    # Few, for each costs more than in a strategy's loop.
    for replica in sample(candidates, rng, SAMPLE):
        slots = replica.concurrency
        if only_free and slots is not None and replica.load >= slots:
            continue
        # What decides most cheaply comes first.
        times = odds.times(replica)
        if times[0] >= own_times[0] and times[1] >= own_times[1]:
            continue
        price = max(0.0, congestion(replica) - base) / pays
        more = replica.due_sensitivity - harm
        if more > 0.0:
            price += HARM * more
        if most - price < best - ALIKE:
            continue
        worth = trust * (min(odds.chance(times), ENOUGH) - chance) - price
        if worth >= best - ALIKE and worth >= least_worth:
            best = max(best, worth)
            found.append((worth, replica))
    least = best - ALIKE
    return [replica for worth, replica in found if worth >= least]


def best_chance(odds: Odds, candidates: Sequence[Replica], rng: Random) -> float | None:
    """The chance of being in time at the candidate where it is best, of some of them where there are many;
    ``None``: there is none."""
    return max((odds.at(replica) for replica in sample(candidates, rng, SAMPLE)), default=None)


def note(replica: Replica, odds: Odds) -> None:
    """This request goes there: renew the mean sensitivity of those that do. Requests that are not due count
    as not sensitive at all."""
    picked = replica.picked
    keep = (1.0 - RENEWAL) ** max(1, picked - replica.due_picked)
    replica.due_sensitivity = replica.due_sensitivity * keep + RENEWAL * odds.sensitivity(replica)
    replica.due_picked = picked


def congestion(replica: Replica) -> float:
    """Seconds per unit of work, all that are there and one request more sharing the replica."""
    slots, requests = replica.concurrency, replica.load + 1
    if slots is None:
        power = replica.depth_power
        return replica.cost * (requests if power == 1.0 else float(requests**power))
    return replica.cost * max(1.0, requests / slots)
