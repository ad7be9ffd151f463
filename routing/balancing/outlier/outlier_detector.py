"""Outlier detector: what live traffic shows of a pool's replicas. It ejects them and lets them back.

The rules are in :mod:`routing.balancing.outlier.ejection`. Here they are applied to the pool's replicas and,
by way of shared memory, kept in step with the other workers of the host.
"""

import logging
from collections.abc import Callable, Sequence
from math import inf
from random import Random

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import FAILURES, Outcome
from routing.balancing.learning import latency_ewma, learned_speed
from routing.balancing.learning.failure_penalty import failure_seconds
from routing.balancing.learning.fleet_speed import FleetSpeed
from routing.balancing.outlier import (
    effective_weight,
    ejection,
    failure_load,
    inspection,
    shared_consecutive_failures,
    shared_ejection,
    silence,
    soft_ejection,
    starvation,
    success_rate,
)
from routing.balancing.outlier.census import Census
from routing.balancing.outlier.common_failure import CommonFailure
from routing.balancing.outlier.lost_requests import LostRequests
from routing.balancing.outlier.missing_results import MissingResults
from routing.balancing.outlier.poison_clients import PoisonClients
from routing.balancing.outlier.shared_poison_clients import SharedPoisonClients, number_of
from routing.balancing.outlier.speed_doubt import SpeedDoubts
from routing.balancing.replica.client_source import ClientSource
from routing.balancing.replica.state import Replica
from routing.contract.policy import Policy
from routing.shared.shm_counters import SharedCounters

log = logging.getLogger(__name__)

SETTLED_AFTER_S = 1.0
"""How long after a return what was sent before it may still be answered, and be learned from."""
HELD_S = 1.5
"""A worker that has not looked for so long was held itself: reports have it look once a second."""
UNPROVEN_S = 60.0
"""How long a replica whose responses were no answers is not let back by one that is not judged."""
MONITOR_S = 30.0
"""How long a failure that is held against a client has the requests say who sent them."""

_WORDS = {
    Outcome.FAILED: "answered with a server error",
    Outcome.WITHOUT_MODEL: "answered 404: it does not have the model",
    Outcome.REFUSED: "found no connection",
    Outcome.LOST: "lost its connection",
    Outcome.TRUNCATED: "ended a response before its answer was complete",
    Outcome.TIMEOUT: "timed out",
    Outcome.BEATEN: "sent nothing until another replica had answered",
}


class OutlierDetector:
    """Outlier detection of one pool. ``replicas()``: those in the table. ``on_drained`` is called when the
    last request of a replica that is no longer in the table has ended; ``changed(now)`` when a replica was
    ejected or let back."""

    def __init__(
        self,
        replicas: Callable[[], Sequence[Replica]],
        on_drained: Callable[[Replica], None],
        speed: FleetSpeed,
        rng: Random,
        changed: Callable[[float], None],
        shared: SharedCounters | None = None,
    ) -> None:
        self._replicas = replicas
        self.on_drained = on_drained
        """Called when the last request of a replica that is no longer in the table has ended."""
        self._speed = speed
        self._rng = rng
        self._changed = changed
        self.policy = Policy()
        self._goes_by_load = False
        self.fleet = ""
        """The pool's name, for the log."""
        self._missing_results = MissingResults()
        self._doubts = SpeedDoubts(self._doubt_changed)
        self.census = Census(replicas, self._follow)
        self._lost_requests = LostRequests(self.census, speed)
        self._common_failure = CommonFailure()
        self._poison_clients = PoisonClients()
        self._sibling_reports = SharedPoisonClients(shared)
        self.monitoring = False
        """Whether the next requests are to say who sent them: :meth:`succeeded`."""
        self._monitor_until = 0.0
        self._reviewed_at = self._heard_from = 0.0

    def follow_strategy(self, goes_by_load: bool) -> None:
        """Another strategy is in force. ``goes_by_load``: it counts requests in flight, and does not take
        load for a queue."""
        before, self._goes_by_load = self._goes_by_load, goes_by_load
        if before and not goes_by_load:
            for replica in self._replicas():
                failure_load.forget(replica)

    # --- attempts that ended ---------------------------------------------------------------------

    def answered(self, attempt: Attempt, now: float) -> None:
        """A replica that had failures, or is ejected, has responded."""
        state = attempt.replica.ejection
        state.failures = 0
        if state.cause == ejection.NO_RESULT and not _is_proven(attempt, now):
            # It answers, as it did before; what is not known.
            if attempt.probe:
                state.probing = False
                shared_ejection.release_probe(attempt.replica)
            return
        soft_ejection.end(attempt.replica)
        if state.failure_run.is_shown:
            shared_consecutive_failures.end(attempt.replica)
        if state.until and (attempt.probe or attempt.started >= state.claimed_at or state.stalled):
            self._uneject(attempt.replica, now)

    def not_answered(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        """Learn from an attempt that was no success, and eject if that is due."""
        replica = attempt.replica
        state = replica.ejection
        if outcome in FAILURES and attempt.started < max(state.returned_at, self._common_failure.ended_at):
            # What was sent before the return, or before the fleet's, says nothing of the time after it.
            state.windows.before_return += 1
            if attempt.probe and attempt.started >= state.probed_at:
                state.probing = False
                shared_ejection.release_probe(replica)
        elif outcome in FAILURES:
            self._speed.failed(replica, now - attempt.started, now)
            if self._goes_by_load:
                failure_load.add(replica, failure_seconds(0.0, self._speed.p99_s), now)
            self._failed(attempt, outcome, now)
        elif outcome is Outcome.BEATEN:
            self._beaten(attempt, now)
        elif outcome is Outcome.WITHOUT_RESULT:
            self._without_result(attempt, now)
        elif outcome is Outcome.SWITCHED:
            self.answered(attempt, now)
        elif outcome is Outcome.CANCELLED or outcome is Outcome.PREVENTED:
            if attempt.probe:
                state.probing = False
                shared_ejection.release_probe(replica)
        else:
            self._answered_without_success(attempt, outcome, now)

    def succeeded(self, source: ClientSource, replica: Replica, now: float) -> None:
        """A request from this source has succeeded at this replica."""
        if any(self._poison_clients.knows(who) for who in source):
            number = number_of(replica.uid)
            self._poison_clients.succeeded(source.request, number, now)
            if self._poison_clients.succeeded(source.client, number, now):
                self._sibling_reports.tell(self.fleet, source.client, number, now, succeeded=True)

    def close(self) -> None:
        """The fleet is gone."""
        self._sibling_reports.unshare()

    def _answered_without_success(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        replica = attempt.replica
        replica.last_heard_at = now
        if outcome is Outcome.REJECTED:
            self._speed.rejected(replica, now - attempt.started, now)
        if attempt.probe and replica.ejection.until:
            # It lives and answers; neither load nor a client's own error would have ejected it.
            self._uneject(replica, now)

    def _beaten(self, attempt: Attempt, now: float) -> None:
        """Another replica was sent the request as well, and has answered first. This one is slow if it has
        told anything meanwhile. If not, it may be silent: that counts as a failure, for as its requests are
        given up one by one, nothing else would show it."""
        replica, state = attempt.replica, attempt.replica.ejection
        began = attempt.started
        if max(replica.told_at, state.progress.succeeded_at) > began:
            self._speed.rejected(replica, now - began, now)
        elif began >= max(state.returned_at, self._common_failure.ended_at):
            self._speed.failed(replica, now - began, now)
            if self._goes_by_load:
                failure_load.add(replica, failure_seconds(0.0, self._speed.p99_s), now)
            was_out = bool(state.until)
            self._failed(attempt, Outcome.BEATEN, now)
            if state.until and not was_out:
                # What waits there would be given up one by one, as far as the budget goes.
                self._lost_requests.free_from_silent(replica, state.reason, now)
            return
        if attempt.probe and began >= state.probed_at:
            state.probing = False
            shared_ejection.release_probe(replica)

    def _failed(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        replica = attempt.replica
        state = replica.ejection
        # Of what was refused nothing was sent, so that it cannot be the request's fault.
        source = None if outcome is Outcome.REFUSED else attempt.source
        if source is not None:
            self._note(source, replica, now)
        if attempt.probe and source is not None and self._is_suspect(source, now):
            # It would have failed anywhere, so it decides nothing.
            state.probing = False
            shared_ejection.release_probe(replica)
        elif attempt.probe and attempt.started >= state.probed_at:
            words = f"its probe request {_words(replica, outcome)}"
            self._eject(replica, now, words, _cause(outcome), tried_at=attempt.started)
        else:
            self._failed_again(replica, outcome, source, now)

    def _failed_again(
        self, replica: Replica, outcome: Outcome, source: ClientSource | None, now: float
    ) -> None:
        state = replica.ejection
        if not state.failures:
            shared_consecutive_failures.begin(replica)
        is_row = ejection.failed(state, self.policy.ejection.consecutive_failures, source)
        if is_row and not state.until and not self._excuse(replica, now):
            words = f"{state.failures} failures in a row, the last one {_words(replica, outcome)}"
            self._eject(replica, now, words, _cause(outcome))

    # --- bodies that are no answers --------------------------------------------------------------

    def lacks_result(self, replica: Replica, now: float) -> bool:
        """A response of this replica is no answer of its protocol. Whether that is no success: not where its
        fleet answers so, or nobody knows."""
        inspection.done(replica, now)
        state = replica.ejection
        if state.until and state.cause == ejection.NO_RESULT:
            return True
        is_unusual = self._missing_results.is_unusual(replica, self._replicas(), now)
        if not is_unusual:
            self._hold_if_undecided(replica, now)
        return is_unusual

    def has_result(self, attempt: Attempt, has_content: bool, now: float) -> None:
        """A response was looked at, and is an answer. ``has_content``: it is not empty."""
        attempt.proven = True
        doubt = attempt.replica.doubt
        if has_content:
            doubt.whole += 1
        else:
            doubt.empty += 1
        inspection.done(attempt.replica, now)

    def is_suspect(self, replica: Replica) -> bool:
        """Whether the next response of this replica that is no answer is better not handed on."""
        return bool(replica.ejection.until) or self._missing_results.is_suspect(replica)

    def _without_result(self, attempt: Attempt, now: float) -> None:
        replica, state = attempt.replica, attempt.replica.ejection
        replica.last_heard_at = now
        if attempt.started < state.returned_at:
            return
        self._missing_results.note(replica, self._replicas(), now)
        inspection.suspect(replica)
        self._hold_if_undecided(replica, now)
        if attempt.probe and attempt.started >= state.probed_at and state.until:
            if state.cause == ejection.NO_RESULT:
                words = "its probe request was answered by what is no answer of its protocol"
                self._eject(replica, now, words, ejection.NO_RESULT, tried_at=attempt.started)
            else:
                # It lives and answers; one such response is legal.
                self._uneject(replica, now)
        elif not state.until and (words := self._missing_results.outlier_words(replica, self._replicas())):
            self._eject(replica, now, words, ejection.NO_RESULT)

    def _hold_if_undecided(self, replica: Replica, now: float) -> None:
        """Hold it to its fair share until it is known whether it is an outlier."""
        results = replica.ejection.results
        was_undecided = results.is_undecided
        results.is_undecided = self._missing_results.is_undecided(replica, now)
        if results.is_undecided and not was_undecided:
            self._changed(now)

    def _doubt_changed(self, replica: Replica, words: str, is_true: bool) -> None:
        if not is_true:
            _forget_speed(replica)
        log.info("replica %s of fleet %s %s", replica.name, self.fleet, words)

    # --- whose fault it is -----------------------------------------------------------------------

    def _note(self, source: ClientSource, replica: Replica, now: float) -> None:
        success_rate.failed_by(replica, source.client)
        number = number_of(replica.uid)
        self._poison_clients.failed(source.request, number, now)
        if self._poison_clients.failed(source.client, number, now):
            self._sibling_reports.tell(self.fleet, source.client, number, now)

    def _is_suspect(self, source: ClientSource, now: float) -> bool:
        self._sibling_reports.follow(self._poison_clients)
        return any(self._poison_clients.is_suspect(who, now) for who in source)

    def _excuse(self, replica: Replica, now: float) -> str:
        """Why the replica's row of failures is not its fault, in words; empty: it is."""
        self._sibling_reports.follow(self._poison_clients)
        state, limit = replica.ejection, self.policy.ejection.consecutive_failures
        # What is broken as well says nothing of the requests.
        others_fail = self.census.failed_share(replica, limit, now)
        excuse = self._poison_clients.excuse(
            state.failure_run, number_of(replica.uid), limit, others_fail, now
        )
        if excuse:
            if state.failures == limit:
                said = (replica.name, self.fleet, limit, excuse)
                log.info("replica %s of fleet %s is not ejected for %d failures in a row: %s", *said)
            self._monitor(now)
        return excuse

    def _monitor(self, now: float) -> None:
        self._monitor_until = now + MONITOR_S
        if not self.monitoring:
            self.monitoring = True
            self._changed(now)

    # --- on the slow timer -----------------------------------------------------------------------

    def review(self, replicas: Sequence[Replica], now: float, begins: bool) -> None:
        """Follow the other workers, and look for replicas that are silent or fail too often. ``replicas``:
        all of the pool, or the next ones of a large one. ``begins``: these are its first."""
        success_rate.renew(replicas, now)
        if begins:
            self._follow_common_failure(self._replicas(), now)
        self.monitoring = now < self._monitor_until
        self._sibling_reports.follow(self._poison_clients)
        fleet = self._replicas()
        for replica in replicas:
            silence.follow(replica, now)
            if inspection.follow(replica, len(fleet), now) or replica.ejection.results.is_undecided:
                self._hold_if_undecided(replica, now)
        if self._doubts.review(replicas, fleet, now, begins):
            self._changed(now)
        starvation.follow(replicas, fleet, now)
        stall_s, p99_s = self.policy.timeouts.stall_s, self._speed.p99_s
        work_s = self._speed.mean_seconds / self._speed.mean_work
        if now - self._reviewed_at > HELD_S:
            self._heard_from = now
        self._reviewed_at = now
        for replica in replicas:
            state = replica.ejection
            self._follow(replica, now)
            silent_at = state.progress.silent_at
            if silent_at and silence.is_over(replica):
                # What it has learned to expect of the replica is how long that was held.
                state.settled_at = now + SETTLED_AFTER_S if replica.in_flight else 0.0
                self._lost_requests.expect(replica, silent_at, now)
                _forget_speed(replica)
            if state.lost_check_at and now >= state.lost_check_at:
                self._lost_requests.look_for(replica, work_s, stall_s, now)
            if not state.was_ready or state.settled_at or replica.spec.health != "ready":
                self._follow_health(replica, now)
            if replica.failure_load.requests:
                failure_load.expire(replica, now)
            if state.until:
                self._review_ejected(replica, now)
            elif (
                replica.in_flight > replica.stall_exempt
                and (
                    silent := silence.judge(
                        replica, self.census.answering(now), now, stall_s, p99_s, work_s, self._heard_from
                    )
                )
                is not None
            ):
                self._eject(replica, now, silent.words, ejection.SILENCE, stalled=silent.whole)
                self._lost_requests.free_from_silent(replica, silent.words, now)
            elif (state.failures or state.failure_run.is_shown) and self._is_failure_run(replica, now):
                self._eject(
                    replica, now, f"{state.failure_run.judged} failures in a row in the workers of this host"
                )
            elif success_rate.is_outlier(replica, lambda: self.census.answers(now)):
                client = success_rate.by_one_client(replica)
                if client and not self._poison_clients.is_good(client, now, except_at=number_of(replica.uid)):
                    self._monitor(now)
                    continue
                self._eject(replica, now, success_rate.words(replica))
                if replica.ejection.soft_until:
                    # What comes after it is judged by itself, as after an ejection.
                    success_rate.forget(replica)

    def _follow_common_failure(self, replicas: Sequence[Replica], now: float) -> None:
        """Where all have failed alike, the evidence begins anew for all."""
        common, limit = self._common_failure, self.policy.ejection.consecutive_failures
        patience_s = silence.patience_s(self._speed.p99_s, self.policy.timeouts.stall_s)
        if not common.follow(replicas, now, limit, patience_s):
            return
        log.info("all replicas of fleet %s failed alike for %.1f s", self.fleet, now - common.began_at)
        for replica in replicas:
            state = replica.ejection
            if not state.until:
                state.failures = 0
                shared_consecutive_failures.end(replica)
                success_rate.forget(replica)
            elif state.since >= common.began_at and state.cause not in ejection.UNCONNECTED:
                ejection.try_now(state, now)

    def _review_ejected(self, replica: Replica, now: float) -> None:
        state = replica.ejection
        if state.stalled and replica.last_heard_at > state.claimed_at:
            self._uneject(replica, now)
            return
        p99_s = self._speed.p99_s
        soon_s = max(3 * p99_s, min(silence.early_s(p99_s), ejection.TRIAL_EVERY_S))
        patience_s = soon_s or self.policy.timeouts.stall_s
        if silence.probe_hangs(replica, now, patience_s):
            # That is its decision. The request itself may have begun to be answered, so that it goes on.
            words = f"stalled: its probe request has heard nothing for {patience_s:.1f} s"
            self._eject(replica, now, words, ejection.SILENCE, tried_at=state.probed_at)
        if state.cause == ejection.SILENCE and replica.in_flight:
            # As its probe request, which hears nothing either; but that has its own time.
            before = state.probed_at if state.probing else inf
            if silence.requests(replica, now, patience_s)[1]:
                self._lost_requests.free_from_silent(replica, state.reason, now, before)

    def _follow_health(self, replica: Replica, now: float) -> None:
        """Whether probes have taken it out, or let it back, since the last look."""
        state, health = replica.ejection, replica.spec.health
        if health == "down" and replica.in_flight:
            self._lost_requests.free_from_down(replica, now)
        if state.settled_at and now >= state.settled_at:
            state.settled_at = 0.0
            self._forget_learned(replica, now)
        is_ready = health == "ready"
        if is_ready and not state.was_ready:
            state.failures = 0
            if state.until:
                ejection.try_now(state, now)
            else:
                state.returned_at, state.returned_after = now, replica.succeeded + replica.failed
                success_rate.forget(replica)
                failure_load.forget(replica)
        state.was_ready = is_ready

    # --- connect checks --------------------------------------------------------------------------

    def unreachable(self, replica: Replica, words: str, cause: int, now: float, again_s: float) -> None:
        """A connection could not be made, twice. ``again_s``: when it is known whether the next one could."""
        state = replica.ejection
        if not state.until:
            self._eject(replica, now, words, cause)
        if state.until:
            state.cause, state.reason = cause, words
            ejection.postpone(state, now, again_s)
            self._lost_requests.free_from_unreachable(replica, words, now)
            self._changed(now)

    def reachable(self, replica: Replica, now: float) -> None:
        """A connection was made."""
        if replica.ejection.until and replica.ejection.cause in ejection.UNCONNECTED:
            ejection.try_now(replica.ejection, now)
            self._changed(now)

    def _is_failure_run(self, replica: Replica, now: float) -> bool:
        """Whether the workers of the host together have seen as many failures in a row as eject."""
        number = number_of(replica.uid)
        length = shared_consecutive_failures.length(
            replica, lambda who: self._poison_clients.fails_elsewhere(who, number, now)
        )
        if length < self.policy.ejection.consecutive_failures:
            return False
        replica.ejection.failure_run.judged = length
        return True

    # --- out and back ----------------------------------------------------------------------------

    def _eject(
        self,
        replica: Replica,
        now: float,
        words: str,
        cause: int = ejection.FAILURES,
        *,
        stalled: bool = False,
        tried_at: float | None = None,
    ) -> None:
        """Eject a replica if the host's limit allows it. One that is ejected already is ejected anew."""
        state = replica.ejection
        if replica.leaving:
            # Should a table bring it back, another probe request decides.
            state.probing = False
            shared_ejection.release_probe(replica)
            return
        again = bool(state.until)
        available = self.census.available(now)
        limit = ejection.allowed(available, self.policy.ejection.max_ejected_percent)
        if not again and self.census.ejected(now) >= limit:
            self._soft_eject(replica, available, now, words)
            return
        base_s, answers = self.policy.ejection.base_s, replica.succeeded + replica.failed
        ejection.eject(state, now, base_s, self._rng, words, cause, stalled, answers, tried_at)
        shared_ejection.show_ejection(replica)
        if not again:
            self.census.moved(ejected=1, out=0 if state.soft_until else 1)
        if not again and self.census.ejected(now) > limit:
            ejection.undo(state)
            self.census.moved(ejected=-1, out=0 if state.soft_until else -1)
            shared_ejection.show_ejection(replica)
        else:
            said = (replica.name, self.fleet, state.until - now, state.reason)
            log.info("replica %s of fleet %s is ejected for %.0f s: %s", *said)
        self._changed(now)

    def _soft_eject(self, replica: Replica, available: int, now: float, words: str) -> None:
        """The limit on ejections is reached: eject softly."""
        out_besides = self.census.out(now) - bool(replica.ejection.until or replica.ejection.soft_until)
        if not soft_ejection.may_begin(out_besides, available):
            return
        seconds = failure_seconds(0.0, self._speed.p99_s)
        if soft_ejection.begin(replica, now + seconds):
            self.census.moved(out=1)
            effective_weight.soft_eject(replica)
            said = (replica.name, self.fleet, seconds, words)
            log.info(
                "replica %s of fleet %s gets next to nothing for %.0f s, for no more may be ejected: %s",
                *said,
            )
            self._changed(now)

    def _uneject(self, replica: Replica, now: float) -> None:
        log.info("replica %s of fleet %s is no longer ejected: it has answered", replica.name, self.fleet)
        was_silent = replica.ejection.cause == ejection.SILENCE
        ejection.lift(replica.ejection, now, replica.succeeded + replica.failed)
        self.census.moved(ejected=-1, out=0 if replica.ejection.soft_until else -1)
        self._returned(replica, was_silent, now)
        shared_ejection.show_ejection(replica)
        self._changed(now)

    def _returned(self, replica: Replica, was_silent: bool, now: float) -> None:
        if was_silent:
            self._lost_requests.expect(replica, now, now)
        replica.ejection.settled_at = now + SETTLED_AFTER_S if replica.in_flight else 0.0
        self._forget_learned(replica, now)

    def _forget_learned(self, replica: Replica, now: float) -> None:
        """What was learned of the replica while it failed is no longer true."""
        _forget_speed(replica)
        success_rate.forget(replica)
        failure_load.forget(replica)
        soft_ejection.end(replica)
        self._missing_results.forget(replica)
        self._doubts.forget(replica, now)

    def _follow(self, replica: Replica, now: float) -> None:
        """Follow what other workers have decided about this replica."""
        was_out, was_silent = bool(replica.ejection.until), replica.ejection.cause == ejection.SILENCE
        shared_ejection.follow_ejections(replica, now)
        if was_out and not replica.ejection.until:
            # Another worker has heard from it, which is news here too.
            replica.last_heard_at = max(replica.last_heard_at, replica.ejection.returned_at)
            self._returned(replica, was_silent, now)


def _forget_speed(replica: Replica) -> None:
    learned_speed.forget(replica.speed)
    latency_ewma.forget(replica)


def _is_proven(attempt: Attempt, now: float) -> bool:
    """Whether the response shows that the replica answers, of one whose responses were no answers."""
    state = attempt.replica.ejection
    return getattr(attempt, "proven", False) or not state.until or now - state.since >= UNPROVEN_S


def _cause(outcome: Outcome) -> int:
    return ejection.SILENCE if outcome is Outcome.BEATEN else ejection.FAILURES


def _words(replica: Replica, outcome: Outcome) -> str:
    if outcome is Outcome.REFUSED and replica.security.not_verified:
        return f"{_WORDS[outcome]}: {replica.security.not_verified}"
    return _WORDS[outcome]
