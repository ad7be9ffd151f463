"""Cost calibration: estimates of requests' work, corrected by what they really took.

Theory. The best guess of a request's work, by squares, is the mean of what requests took that were told to be
as large: the *regression* on the estimate. It is kept as one mean for each octave of the estimate, so it
needs no form: estimates that are right stay what they are, a constant ``max_tokens`` becomes the usual
response, and the noisier estimates are, the nearer they are drawn to the mean. How far is not set, it is what
the means say. A factor per octave (mean taken over mean told) is what a request is multiplied by. Of an
octave that few requests were in, the fleet's factor counts as :data:`PRIOR` of them.

What a request took is the tokens of its response, or the seconds that a usual replica of weight 1 would have
needed: its own, times usual over learned seconds per unit of work of the replica that it was at, in which
the unit cancels. Factors are over the fleet's own, so that the mean work stays the mean told. Only requests
that have not waited in the replica are looked at, and of many only some (:meth:`FleetSpeed.sample
<routing.balancing.learning.fleet_speed.FleetSpeed.sample>`).

Source: regression by bins ("regressogram", Tukey 1961) with an empirical-Bayes prior.

Failure mode: what clients tell must go on meaning the same: after they change it, an octave takes up to
:data:`MOST` responses to be right again.
"""

from math import frexp, log

PRIOR = 8.0
MOST = 200
"""Answers that an octave remembers."""
MOST_OF_ALL = 1000
"""Answers that the means over all octaves remember."""
LOWEST, HIGHEST = -4, 37
"""Octaves: an estimate ``x`` is in ``frexp(x)[1]``, the outermost take what is beyond them."""
BOUND = 1024.0
"""Of a factor, and of what one response may have taken, over the mean."""
BEGINS, ENDS = 0.25, 0.12
"""Logarithm of a factor from which on there is something to correct, and below which no more."""
LEAST = 20
"""Answers that an octave must have had to begin it."""


def octave(told: float) -> int:
    return min(max(frexp(told)[1], LOWEST), HIGHEST)


class Octave:
    """Means of what was told and taken, over so many responses."""

    __slots__ = ("answers", "taken", "told")

    def __init__(self, answers: int = 0, told: float = 0.0, taken: float = 0.0) -> None:
        self.answers = answers
        self.told = told
        self.taken = taken


class CostCalibration:
    """The factors of one fleet in one worker."""

    __slots__ = ("_residual", "_spread", "all", "factors", "octaves")

    def __init__(self) -> None:
        self.factors: dict[int, float] | None = None
        """By octave; ``None``: estimates are taken as they are."""
        self.octaves: dict[int, Octave] = {}
        self.all = Octave()
        self._spread = 0.0
        self._residual = 0.0

    @property
    def explained(self) -> float | None:
        """Share of the variance of what requests take that the corrected estimates tell beforehand, 0 to 1;
        ``None`` while few have been answered."""
        if self.all.answers < LEAST or self._spread <= 0.0:
            return None
        return min(1.0, max(0.0, 1.0 - self._residual / self._spread))

    def learn(self, told: float, taken: float) -> None:
        """One response. Both above 0."""
        of_all = self.all
        if of_all.answers >= LEAST:
            taken = min(taken, BOUND * of_all.taken)
        number = octave(told)
        known = self.octaves.get(number)
        if known is None:
            known = self.octaves[number] = Octave()
        elif known.answers and of_all.answers:
            share = 1.0 / of_all.answers
            of_mean, of_guess = taken - of_all.taken, taken - told * known.taken / known.told
            self._spread += share * (of_mean * of_mean - self._spread)
            self._residual += share * (of_guess * of_guess - self._residual)
        _renew(known, told, taken, MOST)
        _renew(of_all, told, taken, MOST_OF_ALL)

    def follow(self, told: float, taken: float) -> None:
        """These are the means over all octaves, as all workers of the host have them."""
        self.all.told, self.all.taken = told, taken
        self.all.answers = max(self.all.answers, LEAST)

    def refresh(self) -> None:
        """On the slow timer: what to multiply estimates by."""
        if self.all.answers < LEAST:
            return
        usual = self.all.taken / self.all.told
        factors, furthest = {}, 0.0
        for number, known in self.octaves.items():
            own = known.taken / known.told / usual
            factor = (known.answers * own + PRIOR) / (known.answers + PRIOR)
            factors[number] = factor = min(max(factor, 1.0 / BOUND), BOUND)
            if known.answers >= LEAST:
                furthest = max(furthest, abs(log(factor)))
        needed = furthest > (BEGINS if self.factors is None else ENDS)
        self.factors = factors if needed else None


def _renew(known: Octave, told: float, taken: float, most: int) -> None:
    known.answers = answers = min(known.answers + 1, most)
    known.told += (told - known.told) / answers
    known.taken += (taken - known.taken) / answers
