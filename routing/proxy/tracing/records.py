"""Records: two records of one exchange, for the access log and as a trace."""

from routing.balancing.pool.pool import Attempt
from routing.proxy.exchange.state import Ending, ExchangeRecord


class Records:
    """Implements :class:`routing.proxy.exchange.state.ExchangeRecord`."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: ExchangeRecord, second: ExchangeRecord) -> None:
        self._first = first
        self._second = second

    def queued(self, now: float) -> None:
        self._first.queued(now)
        self._second.queued(now)

    def attempt_started(self, attempt: Attempt, reason: str) -> None:
        self._first.attempt_started(attempt, reason)
        self._second.attempt_started(attempt, reason)

    def second_started(self, attempt: Attempt, reason: str) -> None:
        self._first.second_started(attempt, reason)
        self._second.second_started(attempt, reason)

    def sends(self, attempt: Attempt) -> None:
        self._first.sends(attempt)
        self._second.sends(attempt)

    def second_ended(self, result: str, attempt: Attempt | None = None) -> None:
        self._first.second_ended(result, attempt)
        self._second.second_ended(result, attempt)

    def completed(self, ending: Ending, code: str = "", usage: tuple[int, int] | None = None) -> None:
        self._first.completed(ending, code, usage)
        self._second.completed(ending, code, usage)
