"""Validation rules of a routing policy. Defaults are in :mod:`routing.contract.policy`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from routing.contract.field_rules import (
    INVALID,
    Choice,
    FieldProblem,
    Flag,
    ListOf,
    Number,
    NumberOrWord,
    Problems,
    Scalars,
    Section,
    Text,
    below,
    count,
    did_you_mean,
    enough,
    percent,
    seconds,
    shortened,
    shown_number,
)
from routing.contract.names import checked_slug
from routing.contract.policy import (
    Cold,
    Continue,
    FallbackCause,
    FirstTokenLimit,
    HalfClose,
    Policy,
    Prefer,
    QueueAt,
    ReplaySafe,
    Serves,
    StrategyParameter,
    Timeouts,
)

DAY_S = 86_400.0
TOO_MANY_REQUESTS = 429


class StrategyRules(NamedTuple):
    """The known strategies, passed in by the caller: the contract does not import them."""

    names: Collection[str]
    build: Callable[[str, Mapping[str, StrategyParameter]], object]
    """Raises ValueError in words when a parameter is unknown or out of range."""
    why_not: Callable[[str], str] = lambda name: ""
    """Why a strategy of an installed package cannot be used; empty: no package provides it."""


@dataclass(frozen=True, kw_only=True)
class RetryStatus(Number):
    """A status code that blames the replica, not the request."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if type(value) is int and not (value == TOO_MANY_REQUESTS or 500 <= value <= 599):
            cure = "remove it, other responses go to the client"
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
        "head_s": seconds("Receiving the request head, from its first byte to its last.", 0.1, 3600),
        "body_grace_s": seconds(
            "Receiving the request body: this long, plus 1 s for each `body_min_bytes_per_s` bytes of it.",
            0.1,
            DAY_S,
        ),
        "body_min_bytes_per_s": Number(
            words="Minimum rate of the request body after `body_grace_s`.",
            minimum=1,
            maximum=1_000_000_000,
            unit="bytes per second",
        ),
        "connect_s": seconds("Opening a connection to a replica.", 0.001, 60),
        "first_byte_s": seconds(
            "Time to the first content of a streamed response; its head and comments are none.", 0.001, DAY_S
        ),
        "idle_s": seconds(
            "No data from the replica after its response has begun; for a WebSocket, in either direction.",
            0.001,
            DAY_S,
        ),
        "stall_s": seconds(
            "Requests in flight and no data from the replica on any of them: it is ejected.",
            0.001,
            DAY_S,
        ),
        "total_s": seconds("The whole request, retries included.", 0.001, DAY_S),
        "websocket_s": seconds("Age at which a WebSocket is closed; 0: no limit.", 0, 30 * DAY_S),
    },
)

LIMITS = Section(
    words="Sizes of one request.",
    what="limits",
    fields={
        "max_body_bytes": Number(
            words="Largest request body, chunk framing not counted.",
            minimum=1,
            maximum=100_000_000_000,
            whole=True,
            unit="bytes",
        ),
    },
)

RETRIES = Section(
    words="When a request is retried at another replica. Only before the client got any byte of a response.",
    what="retries",
    fields={
        "budget_percent": percent(
            "Retries of requests already sent: at most this share of all requests, plus 2 a second. 0: none."
        ),
        "replay_safe": Choice(
            words="Which requests may be sent twice. `auto`: inference calls that keep no state.",
            options=get_args(ReplaySafe),
        ),
        "statuses": ListOf(
            words="Responses with these are discarded and the request is retried at another replica, if it "
            "may be sent twice; after 500 once. `[]`: none.",
            item=RetryStatus(words="429 or 500 to 599.", minimum=TOO_MANY_REQUESTS, maximum=599, whole=True),
            plural="status codes, 429 or 500 to 599",
            at_most=101,
            distinct=True,
        ),
    },
)

EJECTION = Section(
    words="When failures in live traffic eject a replica (outlier detection).",
    what="ejection",
    fields={
        "consecutive_failures": count("Failures in a row that eject a replica.", 1000),
        "base_s": seconds(
            "Length of the first ejection. Doubles with each further one, up to 300 s.", 0.1, 300
        ),
        "max_ejected_percent": percent("Largest share of the fleet ejected at the same time."),
    },
)

QUEUE = Section(
    words="Requests wait here while no replica has a free slot.",
    what="a queue",
    fields={
        "size": Number(
            words="Most waiting requests on one host, all workers together; more get 503. 0: no queue.",
            minimum=0,
            maximum=1_000_000,
            whole=True,
        ),
        "timeout_s": seconds("Longest wait of a request; then it gets 503.", 0.001, DAY_S),
        "cold": Choice(
            words="While every replica is still loading: `refuse` sends 503 at once, `hold` lets requests "
            "wait.",
            options=get_args(Cold),
        ),
        "cold_timeout_s": seconds("Longest wait for the first replica with `hold`.", 0.001, DAY_S),
        "at": Choice(
            words="Where requests above `max_concurrency` wait: in the `proxy`, or at the `replica`, if the "
            "server has its own queue. With `replica`, `max_concurrency` is no limit: it only says how many "
            "requests the server processes in parallel.",
            options=get_args(QueueAt),
        ),
    },
)

LOCALITY = Section(
    words="Locality: which site's replicas get the requests, if proxies and replicas have a site.",
    what="locality",
    fields={
        "prefer": Choice(
            words="`site`: replicas of the proxy's own site, or of no site, first; `none`: all sites alike.",
            options=get_args(Prefer),
        ),
        "spill_above": Number(
            words="Load of the own site above which part of its requests goes to other sites. 1: full.",
            minimum=0,
            maximum=1,
        ),
    },
)

FALLBACK = Section(
    words="Another fleet, of the same protocol, for requests that this one cannot serve.",
    what="a fallback",
    fields={
        "fleet": Text(
            words="Name of that fleet.", what="name of a fleet", check=checked_slug, required="llama-3-8b"
        ),
        "causes": ListOf(
            words="When requests go there. `no_eligible_replica`: no replica takes requests; `no_place`: the "
            "queue refused the request, or it waited there in vain; `replicas_failed`: the attempts at "
            "replicas failed; `first_token`: nothing came of a stream in time; `deadline`: by predictions it "
            "would be late at each replica; `context_length_exceeded`: a replica says that it is too long.",
            item=Choice(words="Cause.", options=get_args(FallbackCause)),
            plural="causes",
            at_most=16,
            distinct=True,
            at_least=1,
        ),
        "included": Flag(
            words="Whether a client key for this fleet is enough. `false`: it has to be for both fleets."
        ),
    },
)


def _can_be_told(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    """An objective that says nothing, or that nothing could miss, is a mistake."""
    latency_s, first_token_s = fields.get("latency_s"), fields.get("first_token_s")
    if latency_s is None and first_token_s is None and "percentile" in fields:
        message = "says how many requests should be within latency_s or first_token_s: set one of them, too"
        problems.append(FieldProblem(below(at, "percentile"), message))
    if "window_days" in fields and all(
        fields.get(name) is None for name in ("latency_s", "first_token_s", "availability_percent")
    ):
        message = (
            "there is no objective to hold so long: set latency_s, first_token_s or availability_percent"
        )
        problems.append(FieldProblem(below(at, "window_days"), message))
    if _number(first_token_s) >= _number(latency_s) > 0:
        message = f"must be below latency_s, which is {latency_s:g}: what is served in time has met it anyway"
        problems.append(FieldProblem(below(at, "first_token_s"), message))


def _number(value: object) -> float:
    """0 of what is none: that is said elsewhere."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


SLO = Section(
    words="Service-level objectives: what is promised of requests ([more](alerts.md#objectives)). Streams go "
    "where their first token is likelier in time.",
    what="an objective",
    fields={
        "latency_s": seconds(
            "Within this time of a request's head it should be served. Not set: no objective.",
            0.001,
            3600,
            nullable=True,
        ),
        "first_token_s": seconds(
            "Within this time of a request the first token of its stream should come. Not set: no objective.",
            0.001,
            3600,
            nullable=True,
        ),
        "percentile": Number(
            words="How many of the requests should be within these two.",
            minimum=50,
            maximum=99.999,
            unit="percent",
        ),
        "availability_percent": Number(
            words="How many of the requests should not fail. Not set: no objective.",
            minimum=50,
            maximum=99.999,
            unit="percent",
            nullable=True,
        ),
        "window_days": Number(
            words="Over how long the objectives are to hold.", minimum=1, maximum=90, unit="days"
        ),
    },
    cross_check=_can_be_told,
)


def _within_the_time_limit(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    """What is cut off at its time limit is never served later than that."""
    slo, timeouts = fields.get("slo"), fields.get("timeouts")
    latency_s = slo.get("latency_s") if isinstance(slo, Mapping) else None
    total_s = timeouts.get("total_s") if isinstance(timeouts, Mapping) else None
    limit_s = Timeouts().total_s if total_s is None else _number(total_s)
    if 0 < limit_s <= _number(latency_s):
        message = (
            f"must be below timeouts.total_s, which is {limit_s:g}: no request is served later than that, so "
            "nothing could miss it"
        )
        problems.append(FieldProblem(below(below(at, "slo"), "latency_s"), message))


def _least_and_most(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    least, most = fields.get("min_replicas"), fields.get("max_replicas")
    if isinstance(least, int) and isinstance(most, int) and least > most:
        message = f"must be at least min_replicas, which is {least}, not {most}"
        problems.append(FieldProblem(below(at, "max_replicas"), message))


SCALING = Section(
    words="Scaling signal: how many replicas the fleet needs. Others scale.",
    what="scaling",
    fields={
        "target_percent": Number(
            words="Share of a replica's places (`max_concurrency`) or KV memory that is to be in use.",
            minimum=10,
            maximum=100,
            unit="percent",
        ),
        "min_replicas": Number(
            words="Fewest that are said. 0: an idle fleet needs none.",
            minimum=0,
            maximum=100_000,
            whole=True,
        ),
        "max_replicas": count("Most that are said. Not set: no limit.", 100_000, nullable=True),
        "start_s": seconds(
            "How far a growing load is looked ahead while no start of a replica has been seen; after that, "
            "as long as starts took.",
            0,
            3600,
        ),
        "scale_down_after_s": seconds("Fewer are said once no more were needed for this time.", 0, 86_400),
    },
    cross_check=_least_and_most,
)

POLICY = Section(
    words="How requests of the fleet are routed: strategy, limits, retries, ejection, queue.",
    what="a policy",
    fields={
        "strategy": Text(words="Load balancing strategy.", what="strategy name"),
        "parameters": Scalars(words="The strategy's own parameters."),
        "max_concurrency": count(
            "Most requests in flight at one replica; more wait. "
            "Not set: no fixed number, as for a batching server.",
            1_000_000,
            nullable=True,
        ),
        "serves": Choice(
            words="How a replica serves what is there at once. `slots`: up to `max_concurrency` requests "
            "independently of each other. `batch`: each slows the others. `auto`: it is learned.",
            options=get_args(Serves),
        ),
        "timeouts": TIMEOUTS,
        "limits": LIMITS,
        "retries": RETRIES,
        "ejection": EJECTION,
        "slow_start_s": seconds("How long a new or returning replica gets less traffic.", 0, 3600),
        "half_close": Choice(
            words="A client half-closes its connection while it waits. `abort`: the request is cancelled; "
            "`allow`: the client still gets its response.",
            options=get_args(HalfClose),
        ),
        "continuation": Choice(
            words="A streamed answer of a chat or completion breaks off. `auto`: another replica of the same "
            "version continues it, if a trial has shown that it can; `off`: the answer ends there.",
            options=get_args(Continue),
        ),
        "first_token_limit_s": NumberOrWord(
            words="A streamed request whose replica has sent nothing of an answer for this time is sent to a "
            "second one as well; the first to answer is used. `auto`: the limit is learned; `off`: none.",
            minimum=0.1,
            maximum=3600,
            unit="seconds",
            options=get_args(FirstTokenLimit),
        ),
        "plain_limit_factor": Number(
            words="The same of a request that is not streamed, after this many times its predicted "
            "completion. Not set: never.",
            minimum=1.5,
            maximum=1000,
            nullable=True,
        ),
        "fallback": ListOf(
            words="Fleets that serve requests which this one cannot, in order ([more](fallback.md)).",
            item=FALLBACK,
            plural="fallbacks",
        ),
        "fallback_budget_percent": percent(
            "Requests that fall back: at most this share of all requests, plus 2 a second. 0: none."
        ),
        "queue": QUEUE,
        "locality": LOCALITY,
        "slo": SLO,
        "scaling": SCALING,
    },
    cross_check=_within_the_time_limit,
)


def check_policy(
    settings: Mapping[str, Any], strategies: StrategyRules | None = None
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """The fields of a :class:`Policy` that were set and are valid, and all problems."""
    problems: Problems = []
    kept = POLICY.read_fields(settings, "", problems)
    problems += strategy_problems(kept, "", strategies)
    return kept, problems


def strategy_problems(
    policy: Mapping[str, Any], at: str, strategies: StrategyRules | None
) -> list[FieldProblem]:
    """Unknown strategy, or invalid parameters of it; empty if the caller passed no strategies."""
    name = policy.get("strategy", Policy().strategy)
    if strategies is None or not isinstance(name, str):
        return []
    if name not in strategies.names and (why := strategies.why_not(name)):
        return [FieldProblem(below(at, "strategy"), f'strategy "{name}" cannot be used: {why}')]
    if name not in strategies.names:
        hint = did_you_mean(name, strategies.names) or f"; use one of {', '.join(strategies.names)}"
        return [FieldProblem(below(at, "strategy"), f'unknown strategy "{shortened(name)}"{hint}')]
    parameters = policy.get("parameters", {})
    problems: Problems = []
    for key, value in parameters.items():
        # One at a time, so that each message points at its own parameter.
        _try(strategies, name, {key: value}, below(below(at, "parameters"), key), problems)
        if enough(problems):
            break
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
