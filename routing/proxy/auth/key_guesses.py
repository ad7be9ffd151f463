"""Key guesses (brute-force protection): how often a worker answers unknown client keys with 401.

They are counted by address and in all. Beyond that they get 429 with Retry-After, and the connection is
closed. Valid keys are not counted, so that those who share an address with a guesser are served as before.
Each count is the time at which its allowance is whole again (the generic cell rate algorithm, ITU-T I.371
annex A).
"""

import logging

from routing.contract.trusted_proxies import client_group

log = logging.getLogger(__name__)

PER_ADDRESS, ADDRESS_INTERVAL_S = 20, 1.0
"""Unknown keys in a row of one address (IPv6: of a /64), and seconds until one more is allowed."""
IN_ALL, ALL_INTERVAL_S = 200, 0.1
MOST_ADDRESSES = 4096
SAY_EVERY_S = 60.0


class KeyGuesses:
    """The counts of one worker. Asked about unknown keys only."""

    __slots__ = ("_all_whole_at", "_said_at", "_whole_at")

    def __init__(self) -> None:
        self._whole_at: dict[str, float] = {}
        """By address, in the order of their first guess."""
        self._all_whole_at = 0.0
        self._said_at = -SAY_EVERY_S

    def wait_s(self, address: str, now: float) -> float:
        """Count one unknown key. 0: it is within the limits, else how long to wait before the next."""
        group = client_group(address)
        whole_at = max(self._whole_at.get(group, 0.0), now) + ADDRESS_INTERVAL_S
        all_whole_at = max(self._all_whole_at, now) + ALL_INTERVAL_S
        wait_s = max(
            whole_at - now - PER_ADDRESS * ADDRESS_INTERVAL_S,
            all_whole_at - now - IN_ALL * ALL_INTERVAL_S,
        )
        if wait_s > 1e-6:
            self._say(address, now)
            return wait_s
        if group not in self._whole_at and len(self._whole_at) >= MOST_ADDRESSES:
            self._make_room(now)
        self._whole_at[group] = whole_at
        self._all_whole_at = all_whole_at
        return 0.0

    def _make_room(self, now: float) -> None:
        """Forget those whose allowance is whole again; if that are few, also those who began first."""
        left = {group: at for group, at in self._whole_at.items() if at > now}
        self._whole_at = dict(list(left.items())[-MOST_ADDRESSES // 2 :])

    def _say(self, address: str, now: float) -> None:
        if now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            log.warning("too many unknown client keys, the last one from %s: further ones get 429", address)
