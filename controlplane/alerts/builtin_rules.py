"""Alert rules that come with Switchyard. Pure: each is a function of the picture.

What stands here are the causes that an operator acts on. Their ``for_s`` is longer than what a restart, an
election or a probe that came late takes, so that a normal day makes no alert.
"""

from collections.abc import Callable, Iterator, Sequence

from controlplane.alerts.picture import Picture, SeenFleet, SeenReplica
from controlplane.alerts.rule_types import AlertSubject, Breach, RuleInForce, Severity
from controlplane.objectives.burn_rate import BurnRule
from controlplane.system.status import ProxyWorkerStatus
from controlplane.telemetry import durations

COLD_S = 600.0
"""How long a fleet whose replicas are all still loading may take when nothing is known of earlier starts."""
CERTIFICATE_WARN_S = 14 * 86400.0
CERTIFICATE_CRITICAL_S = 2 * 86400.0
FULL_PERCENT = 90.0
"""Of the places of a fleet's replicas."""
BASIC_PARTS = ("redis", "database")
JOBS = ("conductor", "worker", "beat")

Fleets = Callable[[SeenFleet], Iterator[Breach]]


def rules() -> tuple[RuleInForce, ...]:
    """All of them, as they are unless somebody has changed them."""
    return _RULES


def _of_fleets(find: Fleets) -> Callable[[Picture, frozenset[AlertSubject]], Sequence[Breach] | None]:
    def found(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
        if picture.fleets is None:
            return None
        return [breach for fleet in picture.fleets for breach in find(fleet)]

    return found


def _no_eligible_replica(fleet: SeenFleet) -> Iterator[Breach]:
    summary = fleet.summary
    wanted = [one for one in fleet.replicas if one.admin_state == "active"]
    if summary.taking or not fleet.replicas or not (wanted or summary.rps):
        return  # taken out by operators, and nobody asks for it
    states = _counted(fleet.replicas)
    subject = AlertSubject(summary.name)
    if summary.covered:
        yield Breach(
            subject, f"no replica takes requests ({states}); another fleet serves them", severity="warning"
        )
    elif summary.cold is None:
        yield Breach(subject, f"no replica takes requests: {states}")
    elif summary.cold.expected_in_s is None:
        yield Breach(subject, f"no replica takes requests, all are still loading: {states}", for_s=COLD_S)
    elif summary.cold.expected_in_s <= 0:
        yield Breach(subject, f"no replica takes requests, and loading takes longer than usual: {states}")


def _replica_out(fleet: SeenFleet) -> Iterator[Breach]:
    for one in fleet.replicas:
        if one.admin_state == "active" and not one.eligible and not one.expected_in_s:
            yield Breach(AlertSubject(fleet.name, one.name), f"{one.state}: {_without_times(one.why)}")


def _queue_refusing(fleet: SeenFleet) -> Iterator[Breach]:
    queue = fleet.summary.queue
    if queue.state != "refusing":
        return
    if queue.late_per_s > queue.full_per_s:
        why = "requests are refused: they wait for a free slot longer than the queue's timeout"
    elif queue.size:
        why = f"requests are refused: the queue ({queue.size} places) is full"
    else:
        why = "requests are refused: no replica has a free slot, and none is queued"
    yield Breach(AlertSubject(fleet.name), why)


def _replicas_missing(fleet: SeenFleet) -> Iterator[Breach]:
    signal = fleet.scaling
    if signal is None or signal.desired is None or signal.desired <= signal.taking + signal.starting:
        return
    if (
        signal.used_percent is not None
        and signal.used_percent < FULL_PERCENT
        and not fleet.summary.queue.waiting
    ):
        return  # it has less to spare than it is meant to, and still enough
    yield Breach(
        AlertSubject(fleet.name), "it needs more replicas than it has, and none starts", float(signal.desired)
    )


def _probe_lag(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    part = picture.parts.get("probes")
    if part is None:
        return None
    if part.level not in ("warn", "bad"):
        return []
    words = {
        "late": "probes are late: the health that is shown is out of date",
        "queueing": "tasks are queued for Celery workers faster than these take them",
        "not scheduled": "no probe is scheduled, though there are replicas",
    }
    return [Breach(AlertSubject(part="probes"), words.get(part.state, _sentence(part.words)))]


def _of_workers(
    states: frozenset[str], words: Callable[[ProxyWorkerStatus], str]
) -> Callable[[Picture, frozenset[AlertSubject]], Sequence[Breach] | None]:
    """Workers in these states, each a breach of its own."""

    def found(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
        if picture.proxies is None:
            return None
        return [
            Breach(AlertSubject(part=one.name), words(one)) for one in picture.proxies if one.state in states
        ]

    return found


def _old_table(worker: ProxyWorkerStatus) -> str:
    if worker.state == "behind":
        return f"it routes from an older table for {', '.join(worker.behind[:3])}"
    return "it gets no new tables, and routes from its last one"


def _proxy_missing(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    if picture.proxies is None:
        return None
    part = picture.parts.get("proxies")
    if part is not None and part.state == "missing":
        return [
            Breach(AlertSubject(part="proxies"), "no proxy reports: none is running, or none reaches Redis")
        ]
    return [
        Breach(
            AlertSubject(part=one.name),
            "it reports no more: it has stopped, or cannot reach Redis",
            severity="warning",
        )
        for one in picture.proxies
        if one.state == "silent"
    ]


def _control_plane(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    known = [picture.parts[name] for name in (*BASIC_PARTS, *JOBS) if name in picture.parts]
    if not known:
        return None
    missing = [
        Breach(AlertSubject(part=part.name), _sentence(part.words)) for part in known if part.level == "bad"
    ]
    # Those of which nothing is known now stay as they are.
    silent = firing - {AlertSubject(part=part.name) for part in known}
    return missing + [
        Breach(subject, "it is not known how it is, while Redis does not answer") for subject in silent
    ]


def _certificate(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    if picture.certificates is None:
        return None
    found = []
    for proxy, left_s in sorted(picture.certificates.items()):
        if left_s < CERTIFICATE_WARN_S:
            severity: Severity = "critical" if left_s < CERTIFICATE_CRITICAL_S else "warning"
            ends = f"ends in {durations.words(left_s)}" if left_s > 0 else "has ended: clients are refused"
            found.append(
                Breach(AlertSubject(part=proxy), f"the certificate of its listener {ends}", left_s, severity)
            )
    return found


def _memory_lease(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    if picture.devices is None:
        return None
    words = "requests wait, or go elsewhere, because its memory is leased out"
    return [Breach(AlertSubject(part=one.name), words) for one in picture.devices if one.lease_waits]


def _device_defect(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    if picture.devices is None:
        return None
    return [
        Breach(AlertSubject(part=one.name), f"its exporter says: {one.measured.trouble}")
        for one in picture.devices
        if one.measured is not None and one.measured.is_defect
    ]


def _objective(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    if picture.objectives is None:
        return None
    return [
        Breach(
            AlertSubject(one.fleet, part=each.target.kind),
            f"{each.target.words}: {burning_words(each.burning, each.target.target)}",
            severity=each.burning.severity,
        )
        for one in picture.objectives
        for each in one.objectives
        if each.burning is not None
    ]


def burning_words(rule: BurnRule, target: float) -> str:
    """What holds while the rule does."""
    long = durations.words(rule.long_s)
    if rule.least_share:
        return f"more than {100 * rule.share(target):.0f} % of the last {long} broke it"
    return f"the error budget burns over {rule.factor:g} times too fast, over {long} and now"


def _source(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach] | None:
    if picture.sources is None:
        return None
    return [
        Breach(
            AlertSubject(one.fleet, part=one.name),
            f"source {one.name} {'is not believed' if one.answers else 'does not answer'}: {one.words}",
        )
        for one in picture.sources
    ]


def _delivery(picture: Picture, firing: frozenset[AlertSubject]) -> Sequence[Breach]:
    return [
        Breach(AlertSubject(part=one.name), f"it does not take notifications: {one.words}")
        for one in picture.failing
    ]


def _counted(replicas: Sequence[SeenReplica]) -> str:
    states: dict[str, int] = {}
    for one in replicas:
        states[one.state] = states.get(one.state, 0) + 1
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items()))


def _without_times(why: str) -> str:
    """The first reason, less how long it has been one: that changes each second."""
    return why.partition("; ")[0].partition(", for ")[0].removesuffix(" ")


def _sentence(words: str) -> str:
    first = words.partition(". ")[0].rstrip(".")
    return f"{first[0].lower()}{first[1:]}" if first else ""


def _rule(
    name: str,
    title: str,
    severity: Severity,
    for_s: float,
    keep_s: float,
    find: Callable[[Picture, frozenset[AlertSubject]], Sequence[Breach] | None],
    about: str,
    unit: str = "",
) -> RuleInForce:
    return RuleInForce(name, title, severity, for_s, keep_s, find, unit, about)


_RULES = (
    _rule(
        "no_eligible_replica",
        "No eligible replica",
        "critical",
        30,
        30,
        _of_fleets(_no_eligible_replica),
        "no replica of a fleet takes requests, so that they are answered with 503; a warning where another "
        "fleet serves them; while all replicas load, once that takes longer than usual or 10 min",
    ),
    _rule(
        "replica_out",
        "Replica out",
        "warning",
        600,
        60,
        _of_fleets(_replica_out),
        "an active replica is ejected, unready, down or still checked, and nobody took it out",
    ),
    _rule(
        "objective_burning",
        "Objective breaks",
        "critical",
        0,
        60,
        _objective,
        "the error budget of an objective burns too fast; a warning where it does so slowly",
    ),
    _rule(
        "queue_refusing",
        "Queue refuses requests",
        "critical",
        60,
        60,
        _of_fleets(_queue_refusing),
        "requests of a fleet are refused because no replica has a free slot",
    ),
    _rule(
        "replicas_missing",
        "More replicas needed",
        "warning",
        120,
        60,
        _of_fleets(_replicas_missing),
        "a fleet needs more replicas than take requests or start, by the scaling signal, and "
        "nine of ten places are in use or requests wait; the value is how many it needs",
    ),
    _rule(
        "device_defect",
        "Accelerator is broken",
        "critical",
        0,
        300,
        _device_defect,
        "DCGM's exporter tells of an XID error of the device itself or of uncorrectable memory errors",
    ),
    _rule(
        "source_frozen",
        "Source frozen or failing",
        "warning",
        300,
        60,
        _source,
        "a [source](discovery.md) of replicas does not answer, or lists suspiciously little: what it has "
        "registered stays, and nothing new comes in",
    ),
    _rule(
        "probe_lag",
        "Probes are late",
        "warning",
        60,
        60,
        _probe_lag,
        "probes are more than 3 s late, none is scheduled, or tasks pile up",
    ),
    _rule(
        "table_refused",
        "Routing table refused",
        "critical",
        15,
        30,
        _of_workers(frozenset({"refused"}), lambda one: _sentence(one.words)),
        "a proxy's worker does not take a newer routing table",
    ),
    _rule(
        "table_old",
        "Routing table old",
        "warning",
        60,
        60,
        _of_workers(frozenset({"behind", "no updates"}), _old_table),
        "a proxy's worker routes from an older table than the newest, or gets none",
    ),
    _rule(
        "proxy_missing",
        "Proxy missing",
        "critical",
        30,
        30,
        _proxy_missing,
        "no proxy reports; a warning for a worker that no longer does and that none has replaced",
    ),
    _rule(
        "control_plane_missing",
        "Part of the control plane missing",
        "critical",
        30,
        30,
        _control_plane,
        "the conductor, every Celery worker, beat, Redis or the database does not do its work",
    ),
    _rule(
        "certificate_ending",
        "Certificate ends",
        "warning",
        0,
        0,
        _certificate,
        "the certificate of a proxy's listener ends within 14 days; critical within 2 days",
        "s",
    ),
    _rule(
        "connections_short",
        "Connections or descriptors run short",
        "warning",
        30,
        60,
        _of_workers(frozenset({"full", "short"}), lambda one: _sentence(one.words.removeprefix("It "))),
        "a proxy's worker has nearly as many connections or file descriptors as it may",
    ),
    _rule(
        "memory_lease_refused",
        "Accelerator memory short",
        "warning",
        120,
        120,
        _memory_lease,
        "requests wait, or go elsewhere, because no memory can be leased on an accelerator",
    ),
    _rule(
        "delivery_failing",
        "Notifications do not arrive",
        "warning",
        300,
        0,
        _delivery,
        "a destination has not taken a notification; told to the others",
    ),
)
