"""Requests without a stream: whether anything tells how an objective for first tokens stands. Pure.

Whether answers are streamed is the clients' and the servers' choice under every protocol (server-sent events,
Triton's ``generate_stream``), so such an objective is refused nowhere. A fleet that streams nothing is told.
"""

from dataclasses import dataclass

LEAST_S = 300.0
LEAST_REQUESTS = 20


@dataclass(slots=True)
class Unstreamed:
    """Of one fleet: what has ended since its last stream began."""

    since: float
    """Unix seconds."""
    requests: int = 0

    def add(self, requests: int, streams: int, now: float) -> None:
        """So many have ended, and so many streams have begun."""
        if streams:
            self.since, self.requests = now, 0
        else:
            self.requests += requests

    def words(self, now: float) -> str:
        """Empty: streams are seen, or too little else."""
        if now - self.since < LEAST_S or self.requests < LEAST_REQUESTS:
            return ""
        minutes = int((now - self.since) / 60)
        return f"no streamed answer among {self.requests} requests in {minutes} min: it cannot be told"
