"""LiteLLM's ``router_settings``, ``litellm_settings``, ``general_settings``: settings of every fleet."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from controlplane.importing.litellm_deployment import VERIFIED, At, Deployment
from controlplane.importing.litellm_fallbacks import KINDS, LiteLLMFallbacks
from controlplane.importing.model import Draft, FleetDraft, SourcedValue, SourceLocation
from routing.contract.names import alias_problem
from routing.contract.policy_rules import EJECTION, TIMEOUTS

_STRATEGIES = {
    "simple-shuffle": "random",
    "least-busy": "least_connections",
    "latency-based-routing": "least_response_time",
}
_REASONS = {
    "content_policy_fallbacks": "what a replica refuses for its content is refused; no other fleet is asked",
    "redis_host": "not needed: Switchyard has a Redis of its own (SWITCHYARD_REDIS_URL)",
    "redis_port": "not needed: Switchyard has a Redis of its own (SWITCHYARD_REDIS_URL)",
    "redis_password": "not needed: Switchyard has a Redis of its own (SWITCHYARD_REDIS_URL)",
    "redis_url": "not needed: Switchyard has a Redis of its own (SWITCHYARD_REDIS_URL)",
    "master_key": "client keys are created in the control plane (docs/proxy.md)",
    "database_url": "the control plane has a database of its own (SWITCHYARD_DATABASE_URL)",
    "cache": "responses are not cached",
    "cache_params": "responses are not cached",
    "callbacks": "metrics and logs are the proxy's own (docs/proxy.md)",
    "success_callback": "metrics and logs are the proxy's own (docs/proxy.md)",
    "failure_callback": "metrics and logs are the proxy's own (docs/proxy.md)",
    "ssl_verify": VERIFIED,
    "drop_params": "bodies are forwarded unchanged",
    "enable_pre_call_checks": "requests are not checked in advance",
    "retry_policy": "retries are bounded by a budget (policy.retries)",
    "allowed_fails_policy": "one ejection rule holds for all kinds of failures (policy.ejection)",
    "routing_strategy_args": "set the strategy's parameters instead (docs/strategies.md)",
}


class _Value(NamedTuple):
    """One setting as it was written."""

    key: str
    value: Any
    place: SourceLocation


class LiteLLMSettings:
    """The three sections. What has a counterpart is applied to fleets, the rest is noted at once."""

    def __init__(self, content: Mapping[str, Any], at: At, draft: Draft) -> None:
        self._draft = draft
        self._kept: dict[str, _Value] = {}
        self._limiting: set[str] = set()
        """Keys of time limits that became a fleet's."""
        for section in ("litellm_settings", "router_settings", "general_settings"):
            for one in _values(content.get(section), section, at):
                if one.key in _APPLIED and section != "general_settings":
                    if earlier := self._kept.get(one.key):
                        draft.note_dropped(
                            earlier.place, _shown(earlier), f"router_settings has {one.key} too"
                        )
                    self._kept[one.key] = one
                else:
                    draft.note_dropped(
                        one.place, _shown(one), _REASONS.get(one.key, "Switchyard has no equivalent")
                    )

    def apply(self, fleet: FleetDraft, members: list[Deployment]) -> None:
        """Put what holds for every fleet into one."""
        self._strategy(fleet, members)
        self._timeouts(fleet, members)
        self._ejection(fleet)
        retries = self._kept.get("num_retries")
        if retries is not None and retries.value == 0:
            fleet.policy()["retries"] = {"budget_percent": SourcedValue(0, f"num_retries 0, {retries.place}")}
        elif retries is not None:
            why = "retries are a share of all requests (policy.retries), not so many for each"
            self._draft.note_changed(retries.place, f"num_retries {retries.value}", why)

    def unused(self) -> None:
        """Note the time limits that no fleet got. Once all fleets have been given theirs."""
        for key in ("timeout", "request_timeout", "stream_timeout"):
            given = self._kept.get(key)
            if given is not None and key not in self._limiting:
                by = "router_settings.timeout" if key == "request_timeout" and "timeout" in self._kept else ""
                why = f"every fleet gets another value from {by or 'the entries of model_list'}"
                self._draft.note_dropped(given.place, _shown(given), why)

    def aliases(self, fleets: Mapping[str, FleetDraft]) -> None:
        """``model_group_alias``: other names of fleets."""
        given = self._kept.get("model_group_alias")
        if given is None:
            return
        taken = set(fleets)
        for alias, target in given.value.items() if isinstance(given.value, Mapping) else ():
            model = target.get("model") if isinstance(target, Mapping) else target
            fleet = fleets.get(model) if isinstance(model, str) else None
            problem = alias_problem(alias) or ("is taken" if alias in taken else None)
            if fleet is None or not fleet.replicas or problem:
                why = f"the name {problem}" if problem else "the model that it stands for is not carried over"
                self._draft.note_dropped(given.place, f"alias {alias}", why)
                continue
            taken.add(alias)
            fleet.fields.setdefault("aliases", []).append(
                SourcedValue(alias, f"model_group_alias, {given.place}")
            )
            fleet.fields.setdefault("served_model", model)

    def fallbacks(self, fleets: Mapping[str, FleetDraft]) -> None:
        """Which fleets serve another one's requests. Once all of them are there."""
        read = LiteLLMFallbacks(fleets, self._draft)
        for kind in KINDS:
            given = self._kept.get(kind)
            if given is not None:
                read.apply(kind, given.value, given.place)

    def _strategy(self, fleet: FleetDraft, members: list[Deployment]) -> None:
        given = self._kept.get("routing_strategy")
        name = given.value if given is not None else "simple-shuffle"
        place = given.place if given is not None else SourceLocation(self._draft.source, 0)
        strategy = _STRATEGIES.get(name) if isinstance(name, str) else None
        if strategy is None:
            why = "Switchyard has no equivalent; fleets get the default, least_expected_work"
            self._draft.note_dropped(place, f"routing_strategy {name}", why)
            return
        where = (
            f"routing_strategy {name}, {place}" if given is not None else "simple-shuffle, LiteLLM's default"
        )
        fleet.policy()["strategy"] = SourcedValue(strategy, where)
        if strategy == "random":
            self._shares(fleet, members)

    def _shares(self, fleet: FleetDraft, members: list[Deployment]) -> None:
        """simple-shuffle draws by ``weight``, else ``rpm``, else ``tpm``, where the first of them has it."""
        by = next((key for key in ("weight", "rpm", "tpm") if key in members[0].shares), "")
        if by in ("", "weight"):
            return
        least = min(one.shares[by] for one in members if by in one.shares)
        by_name = {one.name: one for one in members}
        for replica in fleet.replicas:
            one = by_name[replica["name"]]
            weight = min(1000.0, round(one.shares.get(by, 0.0) / least, 3))
            replica["weight"] = SourcedValue(weight, f"share by {by}, as simple-shuffle draws, {one.place}")

    def _timeouts(self, fleet: FleetDraft, members: list[Deployment]) -> None:
        carried = [one for one in members if one.name]
        total = [one.timeout or self._general("timeout", "request_timeout") for one in carried]
        stream = [one.stream_timeout or self._general("stream_timeout") for one in carried]
        self._limit(fleet, "total_s", "timeout", [one for one in total if one])
        self._limit(fleet, "first_byte_s", "stream_timeout", [one for one in stream if one])

    def _general(self, *keys: str) -> tuple[SourceLocation, Any] | None:
        """What holds where an entry says nothing: the first key that is set."""
        key = next((key for key in keys if key in self._kept), "")
        if not key:
            return None
        self._limiting.add(key)
        return self._kept[key].place, self._kept[key].value

    def _limit(
        self, fleet: FleetDraft, field: str, what: str, given: list[tuple[SourceLocation, Any]]
    ) -> None:
        rule: Any = TIMEOUTS.fields[field]
        valid = [(place, value) for place, value in given if _in_range(value, rule)]
        for place, value in given:
            if (place, value) not in valid:
                self._draft.note_dropped(
                    place, f"{what} {value}", f"{field} is from {rule.minimum:g} to {rule.maximum:g} s"
                )
        if not valid:
            return
        place, value = max(valid, key=lambda one: one[1])
        fleet.timeouts()[field] = SourcedValue(value, f"{what}, {place}")
        for other, shorter in valid:
            if shorter != value:
                self._draft.note_changed(
                    other, f"{what} {shorter}", f"a fleet has one value: the longest is used, {value} s"
                )

    def _ejection(self, fleet: FleetDraft) -> None:
        for key, field in (("allowed_fails", "consecutive_failures"), ("cooldown_time", "base_s")):
            given = self._kept.get(key)
            if given is None:
                continue
            value = (
                given.value + 1 if key == "allowed_fails" and isinstance(given.value, int) else given.value
            )
            rule: Any = EJECTION.fields[field]
            if not _in_range(value, rule):
                why = f"ejection.{field} is from {rule.minimum:g} to {rule.maximum:g}"
                self._draft.note_dropped(given.place, f"{key} {given.value}", why)
                continue
            ejection = fleet.policy().setdefault("ejection", {})
            ejection[field] = SourcedValue(value, f"{key} {given.value}, {given.place}")
            why = "failures in a row are counted, each ejection doubles, and half the fleet stays in use"
            self._draft.note_changed(given.place, f"{key} {given.value}", why)


_APPLIED = {
    *("routing_strategy", "num_retries", "timeout", "request_timeout", "stream_timeout"),
    *("allowed_fails", "cooldown_time", "model_group_alias", *KINDS),
}


def _shown(one: _Value) -> str:
    """Texts may be secrets: only numbers are shown."""
    return f"{one.key} {one.value}" if type(one.value) in (int, float) else one.key


def _values(section: Any, name: str, at: At) -> Iterator[_Value]:
    if isinstance(section, Mapping):
        for key, value in section.items():
            yield _Value(key, value, at(f"/{name}/{key.replace('~', '~0').replace('/', '~1')}"))


def _in_range(value: Any, rule: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and not rule.whole)
    return whole and not isinstance(value, bool) and bool(rule.minimum <= value <= rule.maximum)
