"""Health checks: how probe results move replicas between ``checking``, ``ready``, ``unready`` and ``down``.

Rules:

- A replica that never passed is ``checking``. Its first pass makes it ready at once. While its startup
  budget lasts, failures leave it ``checking``; after that the next failure makes it ``down``.
- ``ready`` is lost after ``fall`` failures in a row; the last of them says whether to ``unready`` (it
  responds, but cannot serve) or ``down`` (refused, no response, not live).
- ``ready`` is regained after ``rise`` passes in a row.
- ``unready`` becomes ``down`` after ``fall`` such failures in a row; ``down`` becomes ``unready`` as
  soon as the server responds again.
- A fleet with warm-up requests wants that many passes in a row before the first traffic, and after ``down``.
- A replica that was lost again and again needs more passes than ``rise`` (:mod:`.flap_damping`).
- What the prober itself is to blame for (it was late, or had no socket left) changes neither state nor
  counters.
- A timeout of a probe alone proves nothing while the replica serves live traffic: such a
  result changes neither state nor counters.

Both probers, the control plane's and the standalone proxy's, decide here and nowhere else. A result
that :data:`TRANSITIONS` does not list raises and changes nothing.
"""

from typing import Literal, NamedTuple

from routing.contract.probe import Probe
from routing.contract.probe_result import ProbeResult
from routing.contract.table import Health

ResultKind = Literal["passed", "unready", "down", "overdue", "excused"]
"""``overdue``: any failure of a replica that has used up its startup budget without a pass.
``excused``: a timeout while live traffic is being answered, or the prober's own fault."""


class Counters(NamedTuple):
    """Results in a row, towards the next change of state."""

    rises: int = 0
    falls: int = 0


class HealthDecision(NamedTuple):
    """What one result led to."""

    state: Health
    counters: Counters
    has_passed: bool
    changed: bool
    reason: str
    """Why the replica is in ``state``, for people. Written down when ``changed``."""


class UnlistedTransition(ValueError):
    """A result that cannot occur in this state: a caller's mistake or a corrupted record."""


class _Move(NamedTuple):
    target: Health
    counts: Literal["rises", "falls", "nothing", "resets"]
    at_once: bool = False


TRANSITIONS: dict[tuple[Health, ResultKind], _Move] = {
    ("checking", "passed"): _Move("ready", "rises", at_once=True),
    ("checking", "unready"): _Move("checking", "resets"),
    ("checking", "down"): _Move("checking", "resets"),
    ("checking", "excused"): _Move("checking", "nothing"),
    ("checking", "overdue"): _Move("down", "falls", at_once=True),
    ("ready", "passed"): _Move("ready", "resets"),
    ("ready", "unready"): _Move("unready", "falls"),
    ("ready", "down"): _Move("down", "falls"),
    ("ready", "excused"): _Move("ready", "nothing"),
    ("unready", "passed"): _Move("ready", "rises"),
    ("unready", "unready"): _Move("unready", "resets"),
    ("unready", "down"): _Move("down", "falls"),
    ("unready", "excused"): _Move("unready", "nothing"),
    ("down", "passed"): _Move("ready", "rises"),
    ("down", "unready"): _Move("unready", "falls", at_once=True),
    ("down", "down"): _Move("down", "resets"),
    ("down", "excused"): _Move("down", "nothing"),
    ("down", "overdue"): _Move("down", "resets"),
}


def next_health(
    state: Health,
    counters: Counters,
    result: ProbeResult,
    probe: Probe,
    *,
    has_passed: bool,
    in_startup_budget: bool,
    answering: bool,
    rise: int | None = None,
) -> HealthDecision:
    """The next state after one probe result.

    ``rise``: passes in a row that it needs to be ready again, if not ``probe.rise``.

    ``in_startup_budget``: less than ``probe.startup_budget_s`` has gone by since the replica began to
    be probed. ``answering``: it has answered live traffic lately. Raises :class:`UnlistedTransition`.
    """
    seen = classify(result, has_passed=has_passed, in_startup_budget=in_startup_budget, answering=answering)
    try:
        move = TRANSITIONS[state, seen]
    except KeyError:
        raise UnlistedTransition(f"a replica that is {state} cannot be seen {seen}") from None
    threshold = probe.fall if move.counts == "falls" else probe.rise if rise is None else rise
    if move.at_once or (result.passed and not has_passed):
        threshold = 1
    if result.passed and state in ("checking", "down"):
        threshold = max(threshold, probe.warm_up)
    new_state, new_counters = _move(state, counters, move, threshold)
    words = _reason(seen, result, probe)
    if result.passed and new_state != "ready":
        words += f" ({new_counters.rises} of {threshold} passes in a row)"
    return HealthDecision(
        new_state,
        new_counters,
        has_passed or new_state == "ready",
        new_state != state,
        words,
    )


def classify(
    result: ProbeResult, *, has_passed: bool, in_startup_budget: bool, answering: bool
) -> ResultKind:
    """The kind of result, in the replica's situation."""
    if result.passed:
        return "passed"
    if result.own_fault or (result.inconclusive and answering):
        return "excused"
    if not has_passed and not in_startup_budget:
        return "overdue"
    return "unready" if result.hint == "unready" else "down"


def _move(state: Health, counters: Counters, move: _Move, threshold: int) -> tuple[Health, Counters]:
    if move.counts == "nothing":
        return state, counters
    if move.counts == "resets":
        return move.target, Counters()
    rises = counters.rises + 1 if move.counts == "rises" else 0
    falls = counters.falls + 1 if move.counts == "falls" else 0
    if rises + falls >= threshold:
        return move.target, Counters()
    return state, Counters(rises, falls)


def _reason(seen: ResultKind, result: ProbeResult, probe: Probe) -> str:
    if seen == "overdue":
        return f"has not passed a probe within {probe.startup_budget_s:g} s: {result.words}"
    if seen == "excused" and not result.own_fault:
        return f"{result.words}, but it answers live traffic"
    return result.words
