"""Client key quota: concurrency, request and token rate limits of one key over all workers of the host.

Theory. Three limits, each of which may be missing. *Concurrency* is a count that each worker shows the others
(:mod:`routing.shared.limits`). *Requests per minute* are a window (:mod:`routing.shared.sliding_window`).
Both are exact. *Tokens per minute* are a window too, but the tokens of a request are known only after its
response. So a request is admitted while something is left of the minute. Until it ends, an estimate of its
prompt is reserved, so that a burst does not slip through before the first response. The limit may therefore
be exceeded, by the tokens of the requests that were admitted last.

A worker's own counts are kept here; the shared counters only show them to the others. So limits may come,
change and go while requests are in flight. Where several proxies share limits, each enforces its share.
"""

from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from routing.contract.table import KeyLimits
from routing.contract.telemetry import KeyCounters
from routing.shared.limits import MAX_CLAIM_ATTEMPTS, fence, take
from routing.shared.quota_share import QuotaShare
from routing.shared.shm_counters import CELL_FIELDS, CounterCells
from routing.shared.sliding_window import SharedSlidingWindow

CONCURRENCY = "max_concurrency"
REQUESTS = "requests_per_minute"
TOKENS = "tokens_per_minute"
"""As in :class:`routing.contract.table.KeyLimits`."""

_COUNT_FIELD = CELL_FIELDS - 1
"""Field of a cell, after those of the window: requests in flight, or tokens reserved."""
MOST_ESTIMATED_BYTES = 65_536
"""The estimate of a prompt takes no body for larger than this, whatever its Content-Length."""
_BYTES_PER_TOKEN = 4
_TRY_AGAIN_S = 1.0
"""``Retry-After`` where the wait depends on when requests in flight end, which is not known."""

ClaimCells = Callable[[str], CounterCells]
"""Claims cells for this client key in the shared counters. The argument tells its cells apart."""


class LimitStatus(NamedTuple):
    """One limit of a key, at one moment."""

    limit: str
    allowed: int
    """By this proxy: its share of the limit."""
    used: int
    wait_s: float
    """Seconds until it allows one more request; 0: it does."""
    resets_s: float
    """Seconds until nothing of it is in use, if nothing more is used."""


class QuotaExceeded(NamedTuple):
    """Why a request was rejected (429)."""

    by: LimitStatus
    """The limit with the longest wait."""
    statuses: list[LimitStatus]
    """The status of every limit of the key."""


class KeyCounts:
    """The counts behind :class:`routing.contract.telemetry.KeyCounters`. They change several times a request,
    so they are plain fields."""

    __slots__ = (
        "errors",
        "first_token",
        "id",
        "in_flight",
        "latency",
        "limited",
        "limited_by",
        "requests",
        "tokens",
    )

    def __init__(self, id: str) -> None:
        self.id = id
        self.requests = 0
        self.in_flight = 0
        self.limited = 0
        self.limited_by: dict[str, int] = {}
        self.tokens = 0
        self.errors: dict[str, int] = {}
        self.latency: dict[int, int] = {}
        self.first_token: dict[int, int] = {}

    def failed(self, reason: str) -> None:
        """A request has failed; one of ``ERROR_REASONS``."""
        self.errors[reason] = self.errors.get(reason, 0) + 1

    def answered(self, bucket: int) -> None:
        """A request was answered. ``bucket``: of the sketch, for how long that took."""
        self.latency[bucket] = self.latency.get(bucket, 0) + 1

    def forget_times(self) -> None:
        """Begin the sketches anew. Not emptied: a report may hold them."""
        self.latency, self.first_token = {}, {}

    def counters(self) -> KeyCounters:
        """Their values now. The sketches go on counting: encode them before the next request."""
        return KeyCounters(
            id=self.id,
            requests=self.requests,
            in_flight=self.in_flight,
            limited=self.limited,
            limited_by={**self.limited_by},
            tokens=self.tokens,
            errors={**self.errors},
            latency=self.latency,
            first_token=self.first_token,
        )


class KeyQuota:
    """One key at one worker. Each successful :meth:`begin` must be followed by exactly one :meth:`end`."""

    __slots__ = (
        "_claim",
        "_clock",
        "_in_flight",
        "_limits",
        "_requests",
        "_reserved",
        "_share",
        "_tokens",
        "concurrency_cells",
        "counts",
        "is_limited",
        "token_cells",
    )

    def __init__(
        self, counts: KeyCounts, claim: ClaimCells, share: QuotaShare, clock: Callable[[], float] = monotonic
    ) -> None:
        self.counts = counts
        self._claim = claim
        self._share = share
        self._clock = clock
        self._limits = KeyLimits(id=counts.id)
        self.is_limited = False
        """Whether :meth:`begin` may refuse."""
        self._in_flight = 0
        self._reserved = 0
        self.concurrency_cells: CounterCells | None = None
        """Requests in flight, for the siblings to read, and the window of requests."""
        self.token_cells: CounterCells | None = None
        """Tokens reserved, for the siblings to read, and the window of tokens."""
        self._requests: SharedSlidingWindow
        self._tokens: SharedSlidingWindow

    def set_limits(self, limits: KeyLimits) -> list[CounterCells]:
        """Apply these limits from now on. Earlier use counts. Returns the cells that are no longer needed."""
        self._limits = limits
        left = []
        needs_concurrency_cells = limits.max_concurrency is not None or limits.requests_per_minute is not None
        if not needs_concurrency_cells and self.concurrency_cells is not None:
            left.append(self.concurrency_cells)
            self.concurrency_cells = None
        if limits.tokens_per_minute is None and self.token_cells is not None:
            left.append(self.token_cells)
            self.token_cells = None
        if needs_concurrency_cells and self.concurrency_cells is None:
            self.concurrency_cells = cells = self._claim("")
            self._requests = SharedSlidingWindow(cells, self._clock)
            cells.write(_COUNT_FIELD, self._in_flight)
        if limits.tokens_per_minute is not None and self.token_cells is None:
            self.token_cells = cells = self._claim(" tokens")
            self._tokens = SharedSlidingWindow(cells, self._clock)
            cells.write(_COUNT_FIELD, self._reserved)
        self.is_limited = self.concurrency_cells is not None or self.token_cells is not None
        return left

    def retire(self) -> list[CounterCells]:
        """The key was removed; its requests in flight still :meth:`end`. Returns the cells to release."""
        return self.set_limits(KeyLimits(id=self._limits.id))

    def cells_were_cleared(self, cells: CounterCells) -> None:
        """The master has cleared these cells: claim others, write the counts there, begin an empty window."""
        if cells is self.concurrency_cells:
            self.concurrency_cells = None
        elif cells is self.token_cells:
            self.token_cells = None
        self.set_limits(self._limits)

    def estimate(self, body_bytes: int) -> int:
        """Tokens to reserve for a request with a body of this size; 0: there is no limit."""
        if self.token_cells is None:
            return 0
        if body_bytes > MOST_ESTIMATED_BYTES:
            body_bytes = MOST_ESTIMATED_BYTES
        return body_bytes // _BYTES_PER_TOKEN if body_bytes > _BYTES_PER_TOKEN else 1

    def begin(self, reserved: int) -> QuotaExceeded | None:
        """Admit a request, or say which limit it exceeds. ``None``: it is admitted."""
        counts = self.counts
        counts.requests += 1
        if self.is_limited and not self._claim_all(reserved):
            return self._quota_exceeded()
        counts.in_flight += 1
        self._in_flight += 1
        if reserved:
            self._reserved += reserved
        return None

    def end(self, reserved: int, tokens: int, prompt_tokens_unknown: bool = False) -> None:
        """An admitted request has ended, in whatever way. ``tokens``: what it has used.
        ``prompt_tokens_unknown``: without its prompt, which the response did not report; the estimate is
        added for that."""
        counts = self.counts
        counts.in_flight -= 1
        self._in_flight -= 1
        if reserved:
            self._reserved -= reserved
        if tokens:
            counts.tokens += tokens
        if self.is_limited:
            concurrency_cells, token_cells = self.concurrency_cells, self.token_cells
            if concurrency_cells is not None:
                concurrency_cells.view[concurrency_cells.own + _COUNT_FIELD] = self._in_flight
            if token_cells is not None:
                used = tokens + reserved if prompt_tokens_unknown else tokens
                if used:
                    self._tokens.add(used)
                token_cells.view[token_cells.own + _COUNT_FIELD] = self._reserved

    def charge(self, tokens: int) -> None:
        """An admitted request that goes on has used so many tokens more."""
        self.counts.tokens += tokens
        if self.token_cells is not None:
            self._tokens.add(tokens)

    def _claim_all(self, reserved: int) -> bool:
        """Claim what every limit requires, or nothing.

        Usually all claims fit: all are written, then one fence, then all sums are read. If a sum is too much,
        or the second has ended meanwhile, all claims are withdrawn and made again one by one.
        """
        limits, share = self._limits, self._share
        is_whole = share.count == 1
        concurrency_cells, token_cells = self.concurrency_cells, self.token_cells
        second = now = int(self._clock())
        most_requests = limits.requests_per_minute
        siblings: tuple[int, ...] = ()
        if concurrency_cells is not None:
            siblings = concurrency_cells.siblings
            concurrency_cells.view[concurrency_cells.own + _COUNT_FIELD] = self._in_flight + 1
            if most_requests is not None:
                second = self._requests.claim(1, now)
        if token_cells is not None:
            siblings = siblings or token_cells.siblings
            token_cells.view[token_cells.own + _COUNT_FIELD] = self._reserved + reserved
        if siblings:
            fence()
        fits = True
        if concurrency_cells is not None:
            most = limits.max_concurrency
            if most is not None:
                taken = float(self._in_flight + 1)
                view = concurrency_cells.view
                for sibling in concurrency_cells.siblings:
                    taken += view[sibling + _COUNT_FIELD]
                fits = taken <= (most if is_whole else share.share_of(most))
            if most_requests is not None and fits:
                fits = self._requests.used_by(second) <= (
                    most_requests if is_whole else share.share_of(most_requests)
                )
        if token_cells is not None and fits:
            most = limits.tokens_per_minute
            assert most is not None
            taken = float(self._tokens.used_by(self._tokens.claim(0, now)) + self._reserved)
            view = token_cells.view
            for sibling in token_cells.siblings:
                taken += view[sibling + _COUNT_FIELD]
            fits = taken < (most if is_whole else share.share_of(most))
        if fits and not (siblings and most_requests is not None and int(self._clock()) > second):
            return True
        if most_requests is not None:
            self._requests.unclaim(1, second)
        self._publish()
        # Without siblings there was no claim that may have been withdrawn since: a second look is useless.
        return bool(siblings) and self._claim_one_by_one(reserved)

    def _claim_one_by_one(self, reserved: int) -> bool:
        """Claim limit by limit. A sum may have contained a sibling's claim that has been withdrawn since."""
        limits, share, concurrency_cells = self._limits, self._share, self.concurrency_cells
        most = limits.max_concurrency
        if (
            most is not None
            and concurrency_cells is not None
            and not take(concurrency_cells, _COUNT_FIELD, 1, share.share_of(most))
        ):
            return False
        most = limits.tokens_per_minute
        fits = most is None or self._reserve(reserved, share.share_of(most))
        most = limits.requests_per_minute
        if fits and (most is None or self._requests.take(1, share.share_of(most))):
            if concurrency_cells is not None:
                concurrency_cells.write(_COUNT_FIELD, self._in_flight + 1)
            return True
        self._publish()
        return False

    def _publish(self) -> None:
        """Write requests in flight and reserved tokens, without claims: this withdraws any claim."""
        if self.concurrency_cells is not None:
            self.concurrency_cells.write(_COUNT_FIELD, self._in_flight)
        if self.token_cells is not None:
            self.token_cells.write(_COUNT_FIELD, self._reserved)

    def _reserve(self, tokens: int, limit: int) -> bool:
        cells = self.token_cells
        assert cells is not None
        for _ in range(max(1, MAX_CLAIM_ATTEMPTS - cells.worker)):
            cells.write(_COUNT_FIELD, self._reserved + tokens)
            fence()
            if self._tokens_taken(cells) < limit:
                return True
            cells.write(_COUNT_FIELD, self._reserved)
            if self._tokens_taken(cells) >= limit:
                return False
        return False

    def _tokens_taken(self, cells: CounterCells) -> int:
        """Tokens that all workers have used within the minute or reserved, without the present claim."""
        return self._tokens.used() + self._reserved + int(cells.siblings_sum(_COUNT_FIELD))

    def _quota_exceeded(self) -> QuotaExceeded:
        statuses = self.statuses()
        by = max(statuses, key=lambda status: status.wait_s)
        counts = self.counts
        counts.limited += 1
        counts.limited_by[by.limit] = counts.limited_by.get(by.limit, 0) + 1
        return QuotaExceeded(by, statuses)

    def statuses(self) -> list[LimitStatus]:
        """The status of each limit of the key."""
        limits, share = self._limits, self._share
        found = []
        if limits.requests_per_minute is not None:
            allowed, window = share.share_of(limits.requests_per_minute), self._requests
            used = window.used()
            wait_s, resets_s = window.seconds_until(used + 1 - allowed)
            found.append(LimitStatus(REQUESTS, allowed, used, wait_s, resets_s))
        if limits.tokens_per_minute is not None and self.token_cells is not None:
            allowed, window = share.share_of(limits.tokens_per_minute), self._tokens
            used = window.used()
            taken = self._tokens_taken(self.token_cells)
            wait_s, resets_s = window.seconds_until(used + 1 - allowed)
            if used < allowed <= taken:
                wait_s = _TRY_AGAIN_S
            found.append(LimitStatus(TOKENS, allowed, taken, wait_s, resets_s))
        if limits.max_concurrency is not None and self.concurrency_cells is not None:
            allowed = share.share_of(limits.max_concurrency)
            used = self._in_flight + int(self.concurrency_cells.siblings_sum(_COUNT_FIELD))
            wait_s = _TRY_AGAIN_S if used >= allowed else 0.0
            found.append(LimitStatus(CONCURRENCY, allowed, used, wait_s, wait_s))
        return found

    def __repr__(self) -> str:
        return f"<KeyQuota {self.counts.id} {self._in_flight} in flight>"
