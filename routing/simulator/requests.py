"""One request of a simulation: its properties and its result."""

from math import inf

from routing.balancing.attempt.outcome import Outcome


class Request:
    """The first fields come from the workload and never change; the others are filled in as it is served."""

    __slots__ = (
        "at_s",
        "attempts",
        "cached_tokens",
        "deadline_s",
        "end",
        "ended_s",
        "estimate",
        "first_byte_s",
        "key",
        "output_tokens",
        "priority",
        "prompt_tokens",
        "replica",
        "seconds",
        "sent_s",
        "session",
        "site",
        "tokens",
    )

    def __init__(
        self,
        at_s: float,
        seconds: float = 0.0,
        *,
        estimate: float = 0.0,
        prompt_tokens: int = 0,
        output_tokens: int = 0,
        key: bytes = b"",
        session: bytes = b"",
        deadline_s: float = inf,
        site: str = "",
        priority: int = 1,
    ) -> None:
        self.at_s = at_s
        """Time of arrival."""
        self.seconds = seconds
        """What it takes in a slot of speed 1. Batching servers go by the tokens."""
        self.estimate = estimate
        """The proxy's estimate of the work, in units; 0: none."""
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.key = key
        """What affinity goes by; empty: nothing."""
        self.session = session
        """What it goes by instead where it goes by sessions and not by prompts; empty: the key."""
        self.deadline_s = deadline_s
        """Its client waits for so long and then leaves."""
        self.site = site
        """Where its client is: it comes to a proxy of this site, if there is one."""
        self.priority = priority
        """Rank of its class; 0 is served first."""

        self.end = ""
        """What became of it: ``answered``, ``refused`` (no place), ``failed`` or ``late`` (its client left);
        empty: it is still on its way."""
        self.ended_s = inf
        self.sent_s = inf
        """When it was last sent to a replica."""
        self.first_byte_s = inf
        self.tokens = 0
        """That have come."""
        self.cached_tokens = 0
        """Of its prompt, that the server had kept and did not read in."""
        self.replica = ""
        """Name of the one it was last sent to."""
        self.attempts = 0

    @property
    def latency_s(self) -> float:
        """From its arrival to the last byte of its answer."""
        return self.ended_s - self.at_s

    def __repr__(self) -> str:
        return f"<Request at {self.at_s:.6f} of {self.seconds:g} s, {self.end or 'on its way'}>"


ANSWERED, REFUSED, FAILED, LATE = "answered", "refused", "failed", "late"
ENDS = (ANSWERED, REFUSED, FAILED, LATE)

END_OF = {Outcome.SUCCESS: ANSWERED, Outcome.CANCELLED: LATE}
"""What an attempt's outcome makes of its request; any other: failed."""
