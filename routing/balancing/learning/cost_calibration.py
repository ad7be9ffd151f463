"""Cost calibration: corrects the estimated work of requests by the work that similar requests really took.

Theory. The best estimate in the least-squares sense is the mean actual work of requests with the same
estimate: the *regression* of actual on estimated work. It is kept as one mean per octave of the estimate and
assumes no functional form. Correct estimates stay unchanged, a constant ``max_tokens`` becomes the usual
length of a response, and the noisier the estimates are, the closer they move to the mean. How far follows
from the data; there is no setting. The correction of an octave is a factor: mean actual work (``taken``)
divided by mean estimate. An octave with few requests is drawn to the fleet's factor, which counts as
:data:`PRIOR` requests.

Actual work is the tokens of the response, or the seconds that a usual replica of weight 1 would have needed:
the request's own seconds, times the usual seconds per unit of work, divided by those learned for its replica
(the unit cancels). Factors are relative to the fleet's overall factor, so the mean work stays the mean
estimate. Only requests that did not wait inside the replica are used, and of many only a sample
(:meth:`FleetSpeed.sample <routing.balancing.learning.fleet_speed.FleetSpeed.sample>`).

Source: regression by bins ("regressogram", Tukey 1961) with an empirical-Bayes prior.

Failure mode: the meaning of clients' estimates must not change. After a change an octave needs up to
:data:`MOST` responses to be right again.
"""

from math import frexp, log

PRIOR = 8.0
MOST = 200
"""Responses that the mean of an octave covers."""
MOST_OF_ALL = 1000
"""Responses that the mean over all octaves covers."""
LOWEST, HIGHEST = -4, 37
"""Octaves: an estimate ``x`` is in octave ``frexp(x)[1]``, limited to this range."""
BOUND = 1024.0
"""Bound of a factor, and of the actual work of one response relative to the mean."""
BEGINS, ENDS = 0.25, 0.12
"""Logarithms of a factor: above the first the correction starts, below the second it ends (hysteresis)."""
LEAST = 20
"""Responses that an octave needs before it can start the correction."""


def octave(estimated: float) -> int:
    return min(max(frexp(estimated)[1], LOWEST), HIGHEST)


class Octave:
    """Means of estimated and actual (``taken``) work over this many responses."""

    __slots__ = ("answers", "estimated", "taken")

    def __init__(self, answers: int = 0, estimated: float = 0.0, taken: float = 0.0) -> None:
        self.answers = answers
        self.estimated = estimated
        self.taken = taken


class CostCalibration:
    """The factors of one fleet in one worker."""

    __slots__ = ("_residual", "_spread", "all", "factors", "octaves")

    def __init__(self) -> None:
        self.factors: dict[int, float] | None = None
        """Factor by octave; ``None``: estimates are used unchanged."""
        self.octaves: dict[int, Octave] = {}
        self.all = Octave()
        self._spread = 0.0
        self._residual = 0.0

    @property
    def explained(self) -> float | None:
        """Share of the variance of actual work that the corrected estimates explain, 0 to 1; ``None`` while
        there are few responses."""
        if self.all.answers < LEAST or self._spread <= 0.0:
            return None
        return min(1.0, max(0.0, 1.0 - self._residual / self._spread))

    def learn(self, estimated: float, taken: float) -> None:
        """Learn from one response. Both values are above 0."""
        of_all = self.all
        if of_all.answers >= LEAST:
            taken = min(taken, BOUND * of_all.taken)
        number = octave(estimated)
        known = self.octaves.get(number)
        if known is None:
            known = self.octaves[number] = Octave()
        elif known.answers and of_all.answers:
            share = 1.0 / of_all.answers
            of_mean, of_guess = taken - of_all.taken, taken - estimated * known.taken / known.estimated
            self._spread += share * (of_mean * of_mean - self._spread)
            self._residual += share * (of_guess * of_guess - self._residual)
        _renew(known, estimated, taken, MOST)
        _renew(of_all, estimated, taken, MOST_OF_ALL)

    def follow(self, estimated: float, taken: float) -> None:
        """Set the means over all octaves to those of all workers of the host."""
        self.all.estimated, self.all.taken = estimated, taken
        self.all.answers = max(self.all.answers, LEAST)

    def refresh(self) -> None:
        """On the slow timer: compute the factors."""
        if self.all.answers < LEAST:
            return
        usual = self.all.taken / self.all.estimated
        factors, furthest = {}, 0.0
        for number, known in self.octaves.items():
            own = known.taken / known.estimated / usual
            factor = (known.answers * own + PRIOR) / (known.answers + PRIOR)
            factors[number] = factor = min(max(factor, 1.0 / BOUND), BOUND)
            if known.answers >= LEAST:
                furthest = max(furthest, abs(log(factor)))
        needed = furthest > (BEGINS if self.factors is None else ENDS)
        self.factors = factors if needed else None


def _renew(known: Octave, estimated: float, taken: float, most: int) -> None:
    known.answers = answers = min(known.answers + 1, most)
    known.estimated += (estimated - known.estimated) / answers
    known.taken += (taken - known.taken) / answers
