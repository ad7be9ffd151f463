"""Decayed regression: a linear model of a few features, fitted to the newest measurements.

Theory. *Ridge regression*: least squares, and beside them a prior belief of the coefficients, worth a few
measurements. Each measurement counts less as newer ones come, so that the model follows what changes. The
sums that are kept are enough to solve for the coefficients; with three features that takes some
microseconds.

Source: Hoerl and Kennard, "Ridge Regression" (1970). Failure mode: a feature that never varies keeps its
prior.
"""

from collections.abc import Sequence

KEEP = 0.99
"""What is left of a measurement's weight with the next one: a memory of about 100."""


class DecayedRegression:
    """Of as many features as there are coefficients in the prior."""

    __slots__ = ("_moments", "_prior", "_sums", "coefficients")

    def __init__(self, prior: Sequence[float], worth: Sequence[float]) -> None:
        """``worth``: of how many measurements, of a feature of size 1, each coefficient's prior is."""
        self.coefficients = list(prior)
        self._prior = [(one, weight) for one, weight in zip(prior, worth, strict=True)]
        self._moments = [[0.0] * len(prior) for _ in prior]
        self._sums = [0.0] * len(prior)

    def expected(self, features: Sequence[float]) -> float:
        return sum(one * value for one, value in zip(self.coefficients, features, strict=True))

    def learn(self, features: Sequence[float], value: float) -> None:
        """One measurement more: fit anew."""
        matrix = []
        for at, (feature, row, (prior, weight)) in enumerate(
            zip(features, self._moments, self._prior, strict=True)
        ):
            row[:] = [known * KEEP + feature * other for known, other in zip(row, features, strict=True)]
            self._sums[at] = self._sums[at] * KEEP + feature * value
            equation = [*row, self._sums[at] + weight * prior]
            equation[at] += weight
            matrix.append(equation)
        self.coefficients = _solved(matrix)


def _solved(matrix: list[list[float]]) -> list[float]:
    """By elimination (Gauss, Jordan); positive definite, so that no pivot is 0."""
    for at, row in enumerate(matrix):
        pivot = row[at]
        row[:] = [value / pivot for value in row]
        for other in matrix:
            if other is not row:
                factor = other[at]
                other[:] = [value - factor * known for value, known in zip(other, row, strict=True)]
    return [row[-1] for row in matrix]
