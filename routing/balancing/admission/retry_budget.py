"""Retry budget: retries may add a share of the requests, so that they cannot multiply an outage.

Theory. Retries are allowed while, over the last 10 to 20 s, they are fewer than ``percent`` of the
requests plus ``FLOOR``: two a second. The floor lets a fleet with little traffic live: at one request a
second each may be retried as often as any may be. Two windows of 10 s are kept; counting is one addition,
rotating is done on a slow timer. An attempt that could not even connect gave its replica nothing to do, so
what is tried instead multiplies nothing and is not charged.

Requests that fall back to another fleet have a budget of their own, in the same form. There each is charged,
also where no replica had anything to do: it is the other fleet that is to be kept from more than it can bear.

Source: Finagle's ``RetryBudget`` (20 % over 10 s, plus a minimum).
"""

WINDOW_S = 10.0
FLOOR = 40
"""Retries within two windows, whatever the requests."""


class RetryBudget:
    """Requests and retries of one fleet in one worker, over two windows."""

    __slots__ = (
        "_earlier_fallbacks",
        "_fallbacks",
        "earlier_requests",
        "earlier_retries",
        "fallback_share",
        "requests",
        "retries",
        "rotated_at",
        "share",
    )

    def __init__(self, percent: float, fallback_percent: float = 0.0) -> None:
        self.share = percent / 100
        self.fallback_share = fallback_percent / 100
        self._fallbacks = self._earlier_fallbacks = 0
        self.requests = self.earlier_requests = 0
        self.retries = self.earlier_retries = 0
        self.rotated_at: float | None = None

    def take(self, never_sent: bool = False) -> bool:
        """Take one retry out of the budget; False: there is none left. Share 0 allows none.
        ``never_sent``: no byte of the request was written, so that it is not charged, and always allowed."""
        if never_sent:
            return True
        if not self.has_left:
            return False
        self.retries += 1
        return True

    @property
    def has_left(self) -> bool:
        """Whether one more retry is allowed."""
        requests = self.requests + self.earlier_requests
        return self.share > 0 and self.retries + self.earlier_retries < requests * self.share + FLOOR

    def take_fallback(self) -> bool:
        """Take one fallback out of its budget; False: there is none left. Share 0 allows none."""
        requests, share = self.requests + self.earlier_requests, self.fallback_share
        if share <= 0 or self._fallbacks + self._earlier_fallbacks >= requests * share + FLOOR:
            return False
        self._fallbacks += 1
        return True

    def rotate(self, now: float) -> None:
        """Start a new window when the present one is full. Call at least every few seconds."""
        if self.rotated_at is None:
            self.rotated_at = now
        elif now - self.rotated_at >= WINDOW_S:
            keep = now - self.rotated_at < 2 * WINDOW_S
            self.earlier_requests = self.requests if keep else 0
            self.earlier_retries = self.retries if keep else 0
            self._earlier_fallbacks = self._fallbacks if keep else 0
            self.requests = self.retries = self._fallbacks = 0
            self.rotated_at = now
