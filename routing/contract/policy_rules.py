"""Validation rules of a routing policy. Defaults are in :mod:`routing.contract.policy`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from routing.contract.field_rules import (
    INVALID,
    Choice,
    FieldProblem,
    ListOf,
    Number,
    Problems,
    Scalars,
    Section,
    Text,
    below,
    count,
    did_you_mean,
    percent,
    seconds,
    shown_number,
)
from routing.contract.policy import (
    RESERVED_POLICY_FIELDS,
    Cold,
    HalfClose,
    Policy,
    Prefer,
    QueueAt,
    ReplaySafe,
    StrategyParameter,
)

DAY_S = 86_400.0
TOO_MANY_REQUESTS = 429


class StrategyRules(NamedTuple):
    """What a caller that knows the strategies lends to the check."""

    names: Collection[str]
    build: Callable[[str, Mapping[str, StrategyParameter]], object]
    """Raises ValueError in words when a parameter is unknown or out of range."""
    why_not: Callable[[str], str] = lambda name: ""
    """Why one that a package brings cannot be used; empty: no package brings it."""


@dataclass(frozen=True, kw_only=True)
class RetryStatus(Number):
    """A status that says that the replica, and not the request, is at fault."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if type(value) is int and not (value == TOO_MANY_REQUESTS or 500 <= value <= 599):
            cure = "remove it, any other answer is the client's"
            message = f"must be {self._range()}, not {shown_number(value)}: {cure}"
            problems.append(FieldProblem(at, message))
            return INVALID
        return super()._read(value, at, problems)

    def _range(self, before: str = "") -> str:
        return f"{TOO_MANY_REQUESTS} or 500 to 599"


TIMEOUTS = Section(
    words="Time limits of one request.",
    what="timeouts",
    fields={
        "head_s": seconds("The request's head, from its first byte to its last.", 0.1, 3600),
        "body_grace_s": seconds(
            "The request's body may take this long, and a second more for each `body_min_bytes_per_s` of it.",
            0.1,
            DAY_S,
        ),
        "body_min_bytes_per_s": Number(
            words="The rate that the request's body must keep after its grace.",
            minimum=1,
            maximum=1_000_000_000,
            unit="bytes per second",
        ),
        "connect_s": seconds("Opening a connection to a replica.", 0.001, 60),
        "first_byte_s": seconds("First response byte, for answers that are streamed.", 0.001, DAY_S),
        "idle_s": seconds(
            "Silence between two pieces of a response once it has begun; of a WebSocket, in both directions.",
            0.001,
            DAY_S,
        ),
        "stall_s": seconds(
            "Requests in flight and nothing heard from the replica on any of them: it is ejected.",
            0.001,
            DAY_S,
        ),
        "total_s": seconds("The whole request, retries included.", 0.001, DAY_S),
    },
)

LIMITS = Section(
    words="Sizes of one request.",
    what="limits",
    fields={
        "max_body_bytes": Number(
            words="The largest request body, without chunked coding.",
            minimum=1,
            maximum=100_000_000_000,
            whole=True,
            unit="bytes",
        ),
    },
)

RETRIES = Section(
    words="When a request goes to another replica, as long as the client has seen nothing of an answer.",
    what="retries",
    fields={
        "budget_percent": percent(
            "Retries of what was sent may add this share of requests, plus a constant of 3; 0: none at all."
        ),
        "replay_safe": Choice(
            words="Which requests may be sent twice: `auto` is inference calls that keep no state.",
            options=get_args(ReplaySafe),
        ),
        "statuses": ListOf(
            words="A replica's answer with one of these is dropped, and another replica asked, where the "
            "request may be sent twice.",
            item=RetryStatus(words="429 or 500 to 599.", minimum=TOO_MANY_REQUESTS, maximum=599, whole=True),
            plural="status codes, 429 or 500 to 599",
        ),
    },
)

EJECTION = Section(
    words="When live traffic takes a replica out for a while.",
    what="ejection",
    fields={
        "consecutive_failures": count("Failures in a row that eject a replica.", 1000),
        "base_s": seconds("First ejection; doubles with each that follows, at most 300 s.", 0.1, 300),
        "max_ejected_percent": percent("At most this share of a fleet is ejected at once."),
    },
)

QUEUE = Section(
    words="Where requests wait while no replica has a free slot.",
    what="a queue",
    fields={
        "size": Number(
            words="Requests that wait at one time on one host, in all its workers; one more is answered 503. "
            "0: none waits.",
            minimum=0,
            maximum=1_000_000,
            whole=True,
        ),
        "timeout_s": seconds("How long a request may wait; then it is answered 503.", 0.001, DAY_S),
        "cold": Choice(
            words="While every replica is still loading: `refuse` answers 503 at once, `hold` lets requests "
            "wait.",
            options=get_args(Cold),
        ),
        "cold_timeout_s": seconds("How long `hold` lets a request wait for the first replica.", 0.001, DAY_S),
        "at": Choice(
            words="Where requests wait that are more than `max_concurrency`: in the `proxy`, or at the "
            "`replica`, where that has a queue of its own. Then it is no limit, and only says how many are "
            "worked on side by side.",
            options=get_args(QueueAt),
        ),
    },
)

LOCALITY = Section(
    words="Which site's replicas are asked, where proxies and replicas say where they are.",
    what="locality",
    fields={
        "prefer": Choice(
            words="`site`: those of the proxy's own site, and of no site, before others; `none`: all alike.",
            options=get_args(Prefer),
        ),
        "spill_above": Number(
            words="How busy the own site may be before part of its requests goes to others; 1 is full.",
            minimum=0,
            maximum=1,
        ),
    },
)

POLICY = Section(
    words="How the fleet picks a replica and what surrounds the pick.",
    what="a policy",
    fields={
        "strategy": Text(words="The rule that picks a replica.", what="strategy name"),
        "parameters": Scalars(words="The strategy's own parameters."),
        "max_concurrency": count(
            "Requests one replica works on at once; more wait. "
            "Not set: a batching server without a fixed number.",
            1_000_000,
            nullable=True,
        ),
        "timeouts": TIMEOUTS,
        "limits": LIMITS,
        "retries": RETRIES,
        "ejection": EJECTION,
        "slow_start_s": seconds("How long a new or returning replica is spared.", 0, 3600),
        "half_close": Choice(
            words="A client that ends its own direction while it waits: `abort` takes it for one that left, "
            "`allow` for one that still reads its answer.",
            options=get_args(HalfClose),
        ),
        "queue": QUEUE,
        "locality": LOCALITY,
    },
    reserved=RESERVED_POLICY_FIELDS,
)


def check_policy(
    settings: Mapping[str, Any], strategies: StrategyRules | None = None
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """What was set of a :class:`Policy` (valid fields only), and everything wrong with it."""
    problems: Problems = []
    kept = POLICY.read_fields(settings, "", problems)
    problems += strategy_problems(kept, "", strategies)
    return kept, problems


def strategy_problems(
    policy: Mapping[str, Any], at: str, strategies: StrategyRules | None
) -> list[FieldProblem]:
    """Unknown strategy, or parameters that it refuses; nothing when the caller knows no strategies."""
    name = policy.get("strategy", Policy().strategy)
    if strategies is None or not isinstance(name, str):
        return []
    if name not in strategies.names and (why := strategies.why_not(name)):
        return [FieldProblem(below(at, "strategy"), f'strategy "{name}" cannot be used: {why}')]
    if name not in strategies.names:
        hint = did_you_mean(name, strategies.names) or f"; use one of {', '.join(strategies.names)}"
        return [FieldProblem(below(at, "strategy"), f'unknown strategy "{name}"{hint}')]
    parameters = policy.get("parameters", {})
    problems: Problems = []
    for key, value in parameters.items():
        # One at a time, so that each message points at its own parameter.
        _try(strategies, name, {key: value}, below(below(at, "parameters"), key), problems)
    if not problems:
        _try(strategies, name, parameters, below(at, "parameters"), problems)
    return problems


def _try(
    strategies: StrategyRules, name: str, parameters: Mapping[str, Any], at: str, problems: Problems
) -> None:
    try:
        strategies.build(name, parameters)
    except ValueError as error:
        problems.append(FieldProblem(at, str(error)))
