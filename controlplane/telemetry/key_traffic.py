"""Traffic of each client key now, over all live workers. Pure: explicit state, ``now`` an argument.

A minute is always the last MINUTE_S seconds, of which a conductor that has just started has seen less.
Proxies enforce the limits themselves, exactly; the numbers here are for people.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.telemetry.deltas import KeyDelta, WorkerDelta
from controlplane.telemetry.frames import WINDOW_S
from routing.contract import sketch
from routing.contract.telemetry import SparseSketch, WorkerReport

MINUTE_S = 60.0
SLOT_S = 10.0
"""Percentiles of a minute forget so much at a time."""
SETTLES_S = 3.0
"""After a limit was changed, workers may report for so long what the former one refused."""

KeyLimitValues = Mapping[str, int | None]
"""By their names: ``requests_per_minute``, ``max_concurrency``, ``tokens_per_minute``."""
Limit = tuple[str, str]
"""(key id, name of the limit)."""


@dataclass(slots=True)
class KeyNumbers:
    """One client key over all live workers. Rates per second."""

    rps: float = 0.0
    limited_per_s: float = 0.0
    in_flight: int = 0
    requests: int = 0
    """Within the last minute, without those that its limits refused."""
    tokens: int = 0
    """Within the last minute."""
    errors: int = 0
    """Likewise: those that failed."""
    p50_s: float | None = None
    """Percentiles of the answers of the last minute: from a request to the end of its answer."""
    p95_s: float | None = None
    p99_s: float | None = None
    first_token_p95_s: float | None = None
    """The same to the first content of a streamed answer."""
    limited: dict[str, int] = field(default_factory=dict)
    """Limit → requests that it refused, of which this merge learned."""
    limited_lately: frozenset[str] = frozenset()
    """Limits that refused requests within the last WINDOW_S."""

    @property
    def used(self) -> bool:
        """Whether anything has been asked with it within the last minute, or is in flight."""
        counts = self.in_flight, self.requests, self.tokens, self.errors
        return bool(any(counts) or self.limited_lately or self.rps)


class Times:
    """Sketches of one key's times in about the last minute. Kept by SLOT_S, for there may be many keys."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: deque[tuple[float, SparseSketch, SparseSketch]] = deque()
        """When each began; latency, and time to first token."""

    def add(self, now: float, latency: SparseSketch, first_token: SparseSketch) -> None:
        if not self._slots or self._slots[-1][0] <= now - SLOT_S:
            self._slots.append((now, {}, {}))
        _, own_latency, own_first = self._slots[-1]
        _add(own_latency, latency)
        _add(own_first, first_token)

    def expire(self, now: float) -> None:
        while self._slots and self._slots[0][0] <= now - MINUTE_S:
            self._slots.popleft()

    def sums(self) -> tuple[SparseSketch, SparseSketch]:
        latency: SparseSketch = {}
        first_token: SparseSketch = {}
        for _, one, other in self._slots:
            _add(latency, one)
            _add(first_token, other)
        return latency, first_token

    def __bool__(self) -> bool:
        return bool(self._slots)


def _add(into: SparseSketch, counts: SparseSketch) -> None:
    for bucket, number in counts.items():
        into[bucket] = into.get(bucket, 0) + number


class Minute:
    """What one key did less than MINUTE_S seconds ago, summed, and which limits refused lately."""

    __slots__ = ("_entries", "_limited_at", "errors", "requests", "times", "tokens")

    def __init__(self) -> None:
        self._entries: deque[tuple[float, int, int, int]] = deque()
        self._limited_at: dict[str, float] = {}
        self.requests = 0
        self.tokens = 0
        self.errors = 0
        self.times = Times()

    def add(self, now: float, news: KeyDelta, limited: Iterable[str]) -> None:
        """Count what happened up to ``now`` (seconds, monotonic, not before the last call's)."""
        requests, errors = max(news.requests - news.limited, 0), sum(news.errors.values())
        if requests or news.tokens or errors:
            self._entries.append((now, requests, news.tokens, errors))
            self.requests += requests
            self.tokens += news.tokens
            self.errors += errors
        if news.latency or news.first_token:
            self.times.add(now, news.latency, news.first_token)
        self._limited_at |= dict.fromkeys(limited, now)

    def expire(self, now: float) -> None:
        """Forget what was added MINUTE_S seconds ago or earlier."""
        while self._entries and self._entries[0][0] <= now - MINUTE_S:
            _, requests, tokens, errors = self._entries.popleft()
            self.requests -= requests
            self.tokens -= tokens
            self.errors -= errors
        self.times.expire(now)
        self._limited_at = {limit: at for limit, at in self._limited_at.items() if at > now - WINDOW_S}

    @property
    def limited_lately(self) -> frozenset[str]:
        return frozenset(self._limited_at)

    def forget_limit(self, name: str) -> None:
        """What it refused says nothing any more."""
        self._limited_at.pop(name, None)

    def __bool__(self) -> bool:
        return bool(self._entries or self._limited_at or self.times)

    def __repr__(self) -> str:
        return f"<Minute {self.requests} requests, {self.tokens} tokens>"


@dataclass(slots=True)
class KeyState:
    """What must be remembered from one merge to the next."""

    minutes: dict[str, Minute] = field(default_factory=dict)
    """By key id."""
    limits: Mapping[str, KeyLimitValues] = field(default_factory=dict)
    """Those in force, by key id."""
    settled_at: dict[Limit, float] = field(default_factory=dict)
    """Limits that were changed just now."""


def count(state: KeyState, keys: dict[str, KeyNumbers], delta: WorkerDelta, now: float) -> None:
    """Take in what one worker newly counted."""
    if delta.elapsed_s > MINUTE_S:  # mostly older than what is shown
        return
    for key, news in delta.keys.items():
        minute = state.minutes.setdefault(key, Minute())
        refusing = _refusing(state, key, news, now)
        minute.add(now, news, refusing)
        limited = keys.setdefault(key, KeyNumbers()).limited
        for limit in refusing:
            limited[limit] = limited.get(limit, 0) + news.limited_by[limit]


def _refusing(state: KeyState, key: str, news: KeyDelta, now: float) -> list[str]:
    """Limits in force that refused something."""
    return [
        limit
        for limit, refused in news.limited_by.items()
        if refused and now >= state.settled_at.get((key, limit), now)
    ]


def add(keys: dict[str, KeyNumbers], report: WorkerReport, held: WorkerDelta | None) -> None:
    """Add one live worker's last report. ``held``: between its last two."""
    for counters in report.keys:
        delta = held.keys.get(counters.id) if held else None
        if delta is None and not counters.in_flight:
            continue
        numbers = keys.setdefault(counters.id, KeyNumbers())
        numbers.in_flight += counters.in_flight
        if held is not None and delta is not None:
            numbers.rps += delta.requests / held.elapsed_s
            numbers.limited_per_s += delta.limited / held.elapsed_s


def read(state: KeyState, keys: dict[str, KeyNumbers], now: float) -> None:
    """The last minute of each key, with what workers did that are gone since."""
    for key, minute in list(state.minutes.items()):
        minute.expire(now)
        if not minute:
            del state.minutes[key]
            continue
        numbers = keys.setdefault(key, KeyNumbers())
        numbers.requests, numbers.tokens, numbers.errors = minute.requests, minute.tokens, minute.errors
        latency, first_token = minute.times.sums()
        numbers.p50_s, numbers.p95_s, numbers.p99_s = (sketch.quantile(latency, q) for q in (0.5, 0.95, 0.99))
        numbers.first_token_p95_s = sketch.quantile(first_token, 0.95)
        numbers.limited_lately = minute.limited_lately


def follow(
    state: KeyState, keys: Mapping[str, KeyNumbers], limits: Mapping[str, KeyLimitValues], now: float
) -> set[Limit]:
    """These limits are in force, by key id. Returns those that have changed: what they refused before is
    forgotten, so that a new limit is not blamed for the old one."""
    changed = {
        (key, name)
        for key, present in limits.items()
        if (before := state.limits.get(key, present)) != present
        for name, value in present.items()
        if before.get(name) != value
    }
    state.limits = limits
    state.settled_at = {limit: at for limit, at in state.settled_at.items() if at > now}
    state.settled_at |= dict.fromkeys(changed, now + SETTLES_S)
    for key, name in changed:
        if key in state.minutes:
            state.minutes[key].forget_limit(name)
        if numbers := keys.get(key):
            numbers.limited.pop(name, None)
            numbers.limited_lately -= {name}
    return changed


def at_limit(numbers: KeyNumbers, limits: KeyLimitValues) -> list[str]:
    """Names of limits that are used up, or that refused requests within the last WINDOW_S."""
    used = {
        "requests_per_minute": numbers.requests,
        "max_concurrency": numbers.in_flight,
        "tokens_per_minute": numbers.tokens,
    }
    return [
        name
        for name, limit in limits.items()
        if limit is not None and (used[name] >= limit or name in numbers.limited_lately)
    ]
