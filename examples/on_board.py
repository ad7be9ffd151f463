"""Several small accelerators in one vehicle, shared by its cameras: the balancer as a library, with no proxy.

``python -m examples.on_board`` drives for six seconds with each of two strategies. Four accelerators (played
by threads that sleep) work on one frame at a time; in the middle third one of the two fast ones is too hot,
and runs at a third of its speed. A frame is worth something for 33 ms. It prints who was in time.
"""

import argparse
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from routing.balancing.balancer import Balancer
from routing.contract.table import ReplicaSpec

SPEEDS = {"dla0": 1.0, "dla1": 1.0, "gpu0": 2.0, "gpu1": 2.0}
FRAME_S = 1 / 30
IN_TIME_S = 0.033
INFERENCE_S = 0.008
CAMERAS = 14


class Accelerator:
    """One device. A real one would be handed the frame where this one sleeps."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._busy = threading.Lock()

    def infer(self) -> None:
        with self._busy:
            time.sleep(INFERENCE_S / self.speed)


class Vehicle:
    """Cameras, accelerators, and the balancer between them."""

    def __init__(self, strategy: str) -> None:
        self.accelerators = {name: Accelerator(speed) for name, speed in SPEEDS.items()}
        specs = [
            ReplicaSpec(uid=name, name=name, url=f"http://{name}.invalid:80", weight=speed)
            for name, speed in SPEEDS.items()
        ]
        self.balancer = Balancer(specs, strategy)
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def see(self, taken_at: float) -> None:
        """One frame, from whichever camera."""
        with self.balancer.pick() as replica:
            self.accelerators[replica.name].infer()
        how = "in time" if time.monotonic() - taken_at <= IN_TIME_S else "late"
        with self._lock:
            self.counts[how] += 1

    def drive(self, seconds: float) -> None:
        """All cameras for so long, each in its own rhythm."""
        begin = time.monotonic()
        hot = self.accelerators["gpu1"]
        with ThreadPoolExecutor(max_workers=4 * CAMERAS) as frames:
            for number in range(int(seconds / FRAME_S) * CAMERAS):
                due = begin + number * FRAME_S / CAMERAS
                time.sleep(max(0.0, due - time.monotonic()))
                is_hot = seconds / 3 <= due - begin < seconds * 2 / 3
                hot.speed = SPEEDS["gpu1"] / 3 if is_hot else SPEEDS["gpu1"]
                frames.submit(self.see, due)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Cameras on a few accelerators, with the balancer as a library."
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="of driving, with each strategy")
    seconds = parser.parse_args().seconds
    for strategy in ("least_expected_work", "round_robin"):
        vehicle = Vehicle(strategy)
        vehicle.drive(seconds)
        total = vehicle.counts.total()
        shares = ", ".join(f"{vehicle.counts[how] / total:.1%} {how}" for how in ("in time", "late"))
        print(f"{strategy}: {total} frames, {shares}")


if __name__ == "__main__":
    main()
