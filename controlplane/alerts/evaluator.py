"""Evaluator: looks every few seconds, decides by the pure rules, and writes what changes in one transaction.

The conductor that leads evaluates; where no conductor does, a Celery task (:mod:`.tasks`). It does no harm if
two do so at once: who writes reads again first, and decides anew.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, transaction

from controlplane.alerts import last_evaluation, live_counts, rule_book, store
from controlplane.alerts.grouping import DueMessage, due_messages
from controlplane.alerts.lifecycle import AlertChange, AlertStep, OpenAlert, advance
from controlplane.alerts.picture import Picture
from controlplane.alerts.reading import PictureReader
from controlplane.alerts.rule_types import AlertSubject, RuleInForce
from controlplane.alerts.silencing import silence_of
from controlplane.alerts.store import StoredAlerts, ToldDestination
from controlplane.observability.outages import Outages
from controlplane.services.unit_of_work import unit_of_work

EVERY_S = 5.0
GAP_S = 60.0
"""Where a rule could not tell for longer, what is pending begins anew."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from one picture. Pure data."""

    changes: Sequence[AlertChange]
    messages: Sequence[tuple[ToldDestination, DueMessage]]

    @property
    def is_empty(self) -> bool:
        return not self.changes and not self.messages


def decide(
    stored: StoredAlerts,
    rules: Sequence[RuleInForce],
    seen: Picture,
    now: float,
    new_id: Callable[[], str],
    lost: frozenset[str] = frozenset(),
) -> Decision:
    """Pure. ``lost`` as :func:`controlplane.alerts.lifecycle.advance` has it."""
    subjects: dict[str, set[AlertSubject]] = {}
    for alert in stored.alerts:
        subjects.setdefault(alert.rule, set()).add(alert.subject)
    findings = {rule.name: rule.find(seen, frozenset(subjects.get(rule.name, ()))) for rule in rules}
    changes = advance(stored.alerts, rules, findings, now, new_id, lost=lost)
    firing = _firing_after(stored.alerts, changes)
    silenced = frozenset(one.id for one in firing if silence_of(one, stored.silences, now) is not None)
    messages = [
        (listener, due)
        for listener in stored.listeners
        for due in due_messages(listener.audience, firing, silenced, listener.told, listener.busy, now)
    ]
    return Decision(changes, messages)


def _firing_after(alerts: Sequence[OpenAlert], changes: Sequence[AlertChange]) -> list[OpenAlert]:
    present = {alert.id: alert for alert in alerts}
    for change in changes:
        if change.step in (AlertStep.DROPPED, AlertStep.RESOLVED):
            present.pop(change.alert.id, None)
        else:
            present[change.alert.id] = change.alert
    return [alert for alert in present.values() if alert.is_firing]


class Evaluator:
    """Everything one evaluator remembers from time to time. Used by one thread."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        look: Callable[[float], Picture] | None = None,
        deliver: Callable[[], None] = lambda: None,
    ) -> None:
        """``deliver``: called after a commit that has put messages into the outbox."""
        self._clock = clock
        self._look = look or PictureReader().picture
        self._deliver = deliver
        self._known_at: dict[str, float] = {}
        """Rule → when it could tell last."""
        self._outages = Outages(logger)

    def evaluate(self) -> Decision | None:
        """Look, decide, write. ``None``: the database is away. Raises nothing for what is merely away."""
        close_old_connections()
        try:
            decision = self._evaluate()
        except DatabaseError as error:
            self._outages.away("the database", error)
            return None
        self._outages.back("the database")
        last_evaluation.note()
        return decision

    def _evaluate(self) -> Decision:
        now = self._clock()
        rules = rule_book.in_force()
        stored = store.load()
        seen = replace(self._look(now), failing=stored.failing)
        lost = self._lost(rules, seen, now)
        decision = decide(stored, rules, seen, now, _new_id, lost)
        if decision.is_empty:
            return decision
        with unit_of_work(store.ACTOR) as write:
            # Nobody else writes now, and somebody may have since.
            decision = decide(store.load(), rules, seen, now, _new_id, lost)
            by_name = _by_name(rules)
            store.write_changes(write, decision.changes, by_name, now)
            for listener, due in decision.messages:
                store.write_message(listener, due, _new_id(), now, alerts_url())
            if decision.messages:
                transaction.on_commit(self._deliver)
        live_counts.announce()
        return decision

    def _lost(self, rules: Sequence[RuleInForce], seen: Picture, now: float) -> frozenset[str]:
        lost = set()
        for rule in rules:
            # What was pending when this process began is taken to have held until now.
            if rule.find(seen, frozenset()) is not None:
                if now - self._known_at.get(rule.name, now) > GAP_S:
                    lost.add(rule.name)
                self._known_at[rule.name] = now
            else:
                self._known_at.setdefault(rule.name, now)
        return frozenset(lost)


def alerts_url() -> str | None:
    """Of the page with all alerts; ``None``: nobody has said where the dashboard is."""
    return f"{settings.DASHBOARD_URL}/alerts" if settings.DASHBOARD_URL else None


def _by_name(rules: Sequence[RuleInForce]) -> Mapping[str, RuleInForce]:
    return {rule.name: rule for rule in rules}


def _new_id() -> str:
    return uuid.uuid4().hex
