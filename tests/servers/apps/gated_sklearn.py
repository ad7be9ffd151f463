"""MLServer's scikit-learn runtime, which waits for the file ``$GATE`` and then trains its model: it takes its
time to load, as a large model would.

Runs in the servers' own environment, not in the tests'.
"""

import os
import time
from asyncio import to_thread
from pathlib import Path

import joblib
from mlserver_sklearn import SKLearnModel
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB


class GatedSKLearn(SKLearnModel):
    async def load(self) -> bool:
        await to_thread(train, Path(self.settings.parameters.uri))
        return await super().load()


def train(file: Path) -> None:
    while not Path(os.environ["GATE"]).exists():
        time.sleep(0.02)
    pixels, digits = load_digits(return_X_y=True)
    joblib.dump(GaussianNB().fit(pixels, digits), file)
