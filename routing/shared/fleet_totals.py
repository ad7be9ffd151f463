"""Fleet totals: one fleet's exact counts at one worker, in memory that outlives the worker.

Each count is written to the worker's own cell of :mod:`routing.shared.totals_block` before the client has the
end of its answer, so that a worker that is killed loses none of the requests that were answered. What a usual
request counts stands first and is written in one call; each number of 8 bytes is written whole.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from routing.contract.ended_requests import ERROR_REASONS, EndedRequests, reason_of, reason_of_status
from routing.contract.policy import Slo

SERVED: Final = 0
INPUT_TOKENS: Final = 1
OUTPUT_TOKENS: Final = 2
TIMED: Final = 3
SLOW: Final = 4
CLIENT_ERRORS: Final = 5
DROPPED: Final = 6
RETRIES: Final = 7
STREAMS: Final = 8
LATE_STREAMS: Final = 9
ERRORS: Final = 10
"""The first of the reasons, in the order of ``ERROR_REASONS``."""
CELL_FIELDS: Final = 48
"""Whole cache lines, with room for more reasons."""
BYTES: Final = 8

_REASONS: Final = {reason: ERRORS + number for number, reason in enumerate(ERROR_REASONS)}
_usual: Final = Struct("@5Q").pack_into
_one: Final = Struct("@Q").pack_into

assert ERRORS + len(ERROR_REASONS) <= CELL_FIELDS


class FleetTotals:
    """Counts go on from what the cell holds. One object a fleet and process: it alone writes the cell."""

    __slots__ = (
        "_at",
        "_cell",
        "_input_tokens",
        "_output_tokens",
        "_rare",
        "_served",
        "_slow",
        "_timed",
        "first_token_s",
        "latency_s",
    )

    def __init__(self, cell: memoryview, at: int) -> None:
        """``cell``: bytes that may be written, ``at``: where the fleet's begin."""
        self._cell = cell
        self._at = at
        held = cell[at : at + CELL_FIELDS * BYTES].cast("Q").tolist()
        self._served: int = held[SERVED]
        self._input_tokens: int = held[INPUT_TOKENS]
        self._output_tokens: int = held[OUTPUT_TOKENS]
        self._timed: int = held[TIMED]
        self._slow: int = held[SLOW]
        self._rare: list[int] = held
        """The others, by field."""
        self.latency_s = 0.0
        """The objective for the time that an answer takes; 0: there is none."""
        self.first_token_s = 0.0
        """The same for the first token of a stream."""

    def follow(self, slo: Slo) -> None:
        """Judge by these objectives from now on. What was counted by others stays."""
        self.latency_s = slo.latency_s or 0.0
        self.first_token_s = slo.first_token_s or 0.0

    def served(self, seconds: float, input_tokens: int, output_tokens: int) -> None:
        """A request was served. ``seconds``: from its complete head; below 0: that is no latency."""
        self._served += 1
        self._input_tokens += input_tokens
        self._output_tokens += output_tokens
        if self.latency_s and seconds >= 0.0:
            self._timed += 1
            if seconds > self.latency_s:
                self._slow += 1
        _usual(
            self._cell,
            self._at,
            self._served,
            self._input_tokens,
            self._output_tokens,
            self._timed,
            self._slow,
        )

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """Tokens of a request that was not served to its end."""
        self._input_tokens += input_tokens
        self._output_tokens += output_tokens
        _one(self._cell, self._at + INPUT_TOKENS * BYTES, self._input_tokens)
        _one(self._cell, self._at + OUTPUT_TOKENS * BYTES, self._output_tokens)

    def client_error(self) -> None:
        """It was answered with 4xx."""
        self._count(CLIENT_ERRORS)

    def dropped(self) -> None:
        """Its client left, or its own time limit passed."""
        self._count(DROPPED)

    def failed(self, code: str) -> None:
        """It ended with this error of the proxy."""
        self._count(_REASONS[reason_of(code)])

    def failed_at_replica(self, status: int) -> None:
        """A replica's 5xx was forwarded."""
        self._count(_REASONS[reason_of_status(status)])

    def retried(self) -> None:
        """One more attempt after the first."""
        self._count(RETRIES)

    def stream_began(self, seconds: float) -> None:
        """The first token of a stream has come, so long after the request's complete head."""
        if self.first_token_s:
            self._count(STREAMS)
            if seconds > self.first_token_s:
                self._count(LATE_STREAMS)

    def report(self) -> EndedRequests:
        """All of it, as of now."""
        return ended_requests(self._cell[self._at : self._at + CELL_FIELDS * BYTES].cast("Q").tolist())

    def _count(self, field: int) -> None:
        count = self._rare[field] + 1
        self._rare[field] = count
        _one(self._cell, self._at + field * BYTES, count)

    def __repr__(self) -> str:
        return f"<FleetTotals {self._served} served>"


def private_totals() -> FleetTotals:
    """Outside of any block, for a process that counts only for itself."""
    return FleetTotals(memoryview(bytearray(CELL_FIELDS * BYTES)), 0)


def ended_requests(fields: Sequence[int]) -> EndedRequests:
    """What the fields of a cell, or the sums of several, mean."""
    return EndedRequests(
        served=fields[SERVED],
        client_errors=fields[CLIENT_ERRORS],
        dropped=fields[DROPPED],
        errors={reason: fields[at] for reason, at in _REASONS.items() if fields[at]},
        retries=fields[RETRIES],
        input_tokens=fields[INPUT_TOKENS],
        output_tokens=fields[OUTPUT_TOKENS],
        slow=fields[SLOW],
        timed=fields[TIMED],
        streams=fields[STREAMS],
        late_streams=fields[LATE_STREAMS],
    )
