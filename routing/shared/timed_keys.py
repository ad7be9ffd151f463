"""Timed keys: which client keys have sketches of their times in a worker, so that these stay bounded.

A sketch takes some KiB, and there may be ten thousand keys. So the sketches of a key that was not used for a
minute begin anew; by then they have been reported many times. Where more keys are in use than are kept, those
that were not used for the longest time begin anew first.
"""

from collections.abc import Iterable

from routing.shared.key_quota import KeyCounts

MOST_KEYS = 2000
IDLE_S = 60.0


class TimedKeys:
    """Of one worker."""

    def __init__(self) -> None:
        self._used_at: dict[KeyCounts, float] = {}
        """Those that have sketches, the one that was used last at the end."""
        self._requests: dict[KeyCounts, int] = {}
        """Of these, when that was looked at last."""

    def follow(self, keys: Iterable[KeyCounts], now: float) -> None:
        """Look at all keys, once a second. ``now``: monotonic seconds."""
        used_at, requests = self._used_at, self._requests
        for key in keys:
            if not (key.latency or key.first_token):
                continue
            if key.in_flight or requests.get(key) != key.requests:
                requests[key] = key.requests
                used_at.pop(key, None)
                used_at[key] = now
        over = len(used_at) - MOST_KEYS
        for key, at in list(used_at.items()):
            if over <= 0 and now - at < IDLE_S:
                break
            over -= 1
            del used_at[key]
            del requests[key]
            key.forget_times()
