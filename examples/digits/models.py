"""The classifiers of the example fleet ``digits``, trained on the data set that comes with scikit-learn.

Rows are 64 brightness values 0 to 16 of an 8 × 8 picture; the answer is the digit 0 to 9. The replicas
differ in how much they compute, not in how long they wait: a linear model, 60 trees, 800 trees.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FEATURES = 64


class Classifier(NamedTuple):
    kind: str
    predict: Callable[[NDArray[np.float64]], NDArray[Any]]
    """``(rows, 64)`` → ``(rows,)`` of digits."""
    accuracy: float
    """Share of right answers on a quarter of the data that training did not see."""


KINDS: dict[str, Callable[[], Any]] = {
    "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=400)),
    "forest": lambda: RandomForestClassifier(n_estimators=60, random_state=0),
    "large-forest": lambda: RandomForestClassifier(n_estimators=800, random_state=0),
}


def train(kind: str) -> Classifier:
    """Train one of KINDS; deterministic."""
    pictures, digits = load_digits(return_X_y=True)
    seen, unseen, seen_digits, unseen_digits = train_test_split(
        pictures, digits, test_size=0.25, random_state=0
    )
    model = KINDS[kind]()
    model.fit(seen, seen_digits)
    return Classifier(kind, model.predict, float(model.score(unseen, unseen_digits)))
