"""The shapes of answers, for the OpenAPI document. What may be *sent* is in ``request_schemas.py``."""

from rest_framework import serializers

from controlplane.api.expose_field import ExposeField
from controlplane.api.rule_fields import section_serializer
from controlplane.models import RoleGrant
from routing.balancing.strategies import registry
from routing.contract.policy_rules import EJECTION, LIMITS, LOCALITY, QUEUE, RETRIES, TIMEOUTS
from routing.contract.priority import PRIORITIES

PROTOCOLS = ["openai", "open-inference", "generic"]
ADMIN_STATES = ["active", "draining", "maintenance"]
ReadOnlySerializer = serializers.Serializer[object]

HEALTH = ["checking", "ready", "unready", "down"]


class FieldProblemSerializer(ReadOnlySerializer):
    pointer = serializers.CharField(help_text="JSON pointer into the body; empty: the whole body.")
    detail = serializers.CharField()


class ProblemSerializer(ReadOnlySerializer):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = FieldProblemSerializer(many=True)  # type: ignore[assignment]  # hides a property for one class
    confirm = serializers.CharField(
        required=False,
        help_text="Only with 409, where most of what serves would go: the token for `?confirm=`.",
    )


class WorkersSerializer(ReadOnlySerializer):
    """Proxy workers and the version that carries the change."""

    live = serializers.IntegerField(help_text="Workers that reported within the last 5 seconds.")
    applied = serializers.IntegerField(help_text="How many of them route from this version.")
    refused = serializers.IntegerField(help_text="How many of them refused it.")
    waited_ms = serializers.FloatField()


class WrittenSerializer(ReadOnlySerializer):
    """The result of a write."""

    changed = serializers.ListField(
        child=serializers.CharField(),
        help_text="What changed, one line each; empty: everything was already so.",
    )
    published = serializers.BooleanField(
        help_text="False: Redis does not answer, or is another installation's; proxies get the change within "
        "seconds of its return."
    )
    not_published = serializers.CharField(required=False, help_text="Only if it is not: why, and what to do.")


class OutcomeSerializer(WrittenSerializer):
    revision = serializers.IntegerField(help_text="Policy revision in force.")
    table_version = serializers.CharField(
        help_text="`epoch:version` of the snapshot that contains the change."
    )
    workers = WorkersSerializer()


class StrategyParametersField(serializers.DictField):
    child = serializers.JSONField()


TimeoutsSerializer = section_serializer("Timeouts", TIMEOUTS)
LimitsSerializer = section_serializer("Limits", LIMITS)
RetriesSerializer = section_serializer("Retries", RETRIES)
EjectionSerializer = section_serializer("Ejection", EJECTION)
QueueSerializer = section_serializer("Queue", QUEUE, QUEUE.words)
LocalitySerializer = section_serializer("Locality", LOCALITY, LOCALITY.words)


class PolicyValuesSerializer(ReadOnlySerializer):
    """Every value in force, defaults included."""

    strategy = serializers.ChoiceField(choices=registry.names())
    parameters = StrategyParametersField()
    max_concurrency = serializers.IntegerField(allow_null=True)
    timeouts = TimeoutsSerializer()
    limits = LimitsSerializer()
    retries = RetriesSerializer()
    ejection = EjectionSerializer()
    slow_start_s = serializers.FloatField()
    half_close = serializers.ChoiceField(choices=["abort", "allow"])
    queue = QueueSerializer()
    locality = LocalitySerializer()


class PolicySerializer(ReadOnlySerializer):
    fleet = serializers.CharField()
    revision = serializers.IntegerField()
    policy = PolicyValuesSerializer()
    set = serializers.DictField(help_text="Only the values that differ from the defaults.")


class PolicyChangedSerializer(PolicySerializer, OutcomeSerializer):
    pass


class ProbeSerializer(ReadOnlySerializer):
    preset = serializers.CharField()
    period_s = serializers.FloatField()
    timeout_s = serializers.FloatField(allow_null=True)
    rise = serializers.IntegerField()
    fall = serializers.IntegerField()
    startup_budget_s = serializers.FloatField()
    path = serializers.CharField(allow_null=True)
    method = serializers.CharField(allow_null=True)
    body = serializers.CharField(allow_null=True)
    accepted_statuses = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    body_contains = serializers.CharField(allow_null=True)
    load_reports = serializers.BooleanField()
    metrics_path = serializers.CharField(allow_null=True)
    metrics_port = serializers.IntegerField(allow_null=True)
    load_header = serializers.BooleanField()


class HealthCountsField(serializers.DictField):
    child = serializers.IntegerField()


class MatchSerializer(ReadOnlySerializer):
    host = serializers.CharField(allow_blank=True, help_text="Empty: any.")
    path_prefix = serializers.CharField(allow_blank=True, help_text="Empty: any.")


class TlsSerializer(ReadOnlySerializer):
    """How replicas with an `https` URL are verified."""

    ca = serializers.CharField(
        allow_blank=True, help_text="`file:PATH` or `env:NAME`; empty: the system's CAs."
    )
    server_name = serializers.CharField(allow_blank=True, help_text="Empty: the host of each URL.")


class FleetSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    protocol = serializers.ChoiceField(choices=PROTOCOLS)
    aliases = serializers.ListField(child=serializers.CharField())
    adapters = serializers.ListField(
        child=serializers.CharField(), help_text="LoRA adapters that the replicas serve beside the model."
    )
    match = MatchSerializer(
        many=True, help_text="Requests with one of these hosts and paths go to this fleet."
    )
    served_model = serializers.CharField(allow_blank=True)
    expose = ExposeField(
        allow_null=True,
        help_text="What clients may reach: `inference`, `all`, or paths and what is below them. Null: the "
        "fleet is older than this setting; what `inference` would refuse is counted only.",
    )
    credential = serializers.CharField(
        allow_blank=True, help_text="Where to find the bearer token for its replicas; never the token itself."
    )
    labels = serializers.DictField(
        child=serializers.CharField(), help_text="Label → value. Roles can be limited to fleets with them."
    )
    default = serializers.BooleanField()
    strategy = serializers.CharField()
    probe = ProbeSerializer()
    tls = TlsSerializer()
    revision = serializers.IntegerField()
    table_version = serializers.CharField()
    replicas = serializers.IntegerField(help_text="Number of replicas.")
    health = HealthCountsField(help_text="Number of replicas by health.")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class FleetChangedSerializer(FleetSerializer, OutcomeSerializer):
    pass


class HealthSerializer(ReadOnlySerializer):
    state = serializers.ChoiceField(choices=HEALTH)
    reason = serializers.CharField(allow_blank=True)
    has_passed = serializers.BooleanField()
    since = serializers.DateTimeField(help_text="When it entered this state.")
    startup_s = serializers.FloatField(
        allow_null=True, help_text="Duration of its last start; null: no start has been observed."
    )
    expected_in_s = serializers.FloatField(
        allow_null=True,
        help_text="Estimated time until it is ready, from the duration of its last start or of the starts of "
        "the fleet's other replicas; 0: it takes longer than that. Null: it is not starting, or no start has "
        "been observed.",
    )


class DrainedAtSerializer(ReadOnlySerializer):
    proxy = serializers.CharField()
    expires_in_s = serializers.IntegerField()


class ReplicaSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    uid = serializers.CharField()
    url = serializers.CharField()
    hardware = serializers.CharField(allow_null=True)
    weight = serializers.FloatField(
        allow_null=True, help_text="As set; null: the weight of its hardware class."
    )
    effective_weight = serializers.FloatField()
    max_concurrency = serializers.IntegerField(allow_null=True)
    accelerators = serializers.ListField(
        child=serializers.CharField(), help_text="Accelerators that it runs on."
    )
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="Memory that it holds permanently on each of them; null: not set."
    )
    request_bytes = serializers.IntegerField(
        help_text="Memory that a request takes on each of them while it runs."
    )
    request_bytes_per_work = serializers.FloatField(
        help_text="The same, for each unit of its estimated work."
    )
    site = serializers.CharField(
        allow_blank=True, help_text="Site where it is; empty: local to proxies of every site."
    )
    credential = serializers.CharField(
        allow_blank=True,
        help_text="Where to find its bearer token, never the token itself; empty: the fleet's.",
    )
    admin_state = serializers.ChoiceField(choices=ADMIN_STATES)
    health = HealthSerializer()
    ejected = serializers.BooleanField(allow_null=True, help_text="Null: no proxy reports.")
    eligible = serializers.BooleanField(
        help_text="Whether admin state, health and ejection allow it, and one proxy at least can send to it."
    )
    why = serializers.CharField(help_text="Which of them does not, and why.")
    drained_by_hand = DrainedAtSerializer(
        many=True, help_text="Proxies with an emergency drain of it, made through the proxy's admin listener."
    )
    in_flight = serializers.IntegerField(allow_null=True, help_text="Null: no proxy reports.")
    safe_to_stop = serializers.BooleanField(
        allow_null=True,
        help_text="True: no proxy worker sends it new requests, none is in flight. Null: no proxy reports.",
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class SuggestedProbeSerializer(ReadOnlySerializer):
    probe = serializers.DictField(help_text="In the format of a fleet's `probe`.")
    words = serializers.CharField()


class TrialSerializer(ReadOnlySerializer):
    """Result of a trial probe: one address, probed once in the way its probes will do it."""

    outcome = serializers.ChoiceField(
        choices=["ready", "unready", "down", "refused"],
        help_text="`refused`: this address is forbidden for replicas; nothing was sent there.",
    )
    words = serializers.CharField(help_text="What was observed, and what to check.")
    url = serializers.CharField(help_text="The URL in normal form.")
    asked = serializers.CharField(help_text="The request, for example `GET /health`.")
    preset = serializers.CharField()
    status = serializers.IntegerField(allow_null=True, help_text="Null: there was no HTTP response.")
    latency_ms = serializers.FloatField(allow_null=True, help_text="Null: there was no HTTP response.")
    fits = SuggestedProbeSerializer(
        allow_null=True,
        help_text="Another probe that fits this server; null: none is needed, or none was found.",
    )


class TrialsField(serializers.DictField):
    child = TrialSerializer()


class FleetCreatedSerializer(FleetChangedSerializer):
    trials = TrialsField(
        help_text="Results by replica name; empty: no trial (`?trial=no`, or more than 20 replicas)."
    )


class ReplicaChangedSerializer(ReplicaSerializer, OutcomeSerializer):
    trial = TrialSerializer(
        allow_null=True, help_text="Null: no trial (`?trial=no`, or the URL is unchanged)."
    )


class RevisionSerializer(ReadOnlySerializer):
    number = serializers.IntegerField()
    policy = PolicyValuesSerializer()
    weights = serializers.DictField(child=serializers.FloatField(allow_null=True))
    actor = serializers.CharField()
    summary = serializers.CharField()
    created_at = serializers.DateTimeField()


class RevisionDetailSerializer(RevisionSerializer):
    would_change = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="What restoring it would change now, one line each; null: it cannot be restored.",
    )
    refused = serializers.CharField(allow_blank=True, help_text="Why it cannot be restored; empty: it can.")


class HardwareClassSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    weight = serializers.FloatField()
    replicas = serializers.IntegerField(help_text="Number of replicas of this class.")
    created_at = serializers.DateTimeField()


class AffectedFleetSerializer(ReadOnlySerializer):
    """A fleet that a change of something else affects."""

    name = serializers.CharField()
    table_version = serializers.CharField(
        help_text="`epoch:version` of the snapshot that contains the change."
    )
    workers = WorkersSerializer()


class HardwareClassChangedSerializer(HardwareClassSerializer, WrittenSerializer):
    fleets = AffectedFleetSerializer(
        many=True, help_text="Fleets with replicas that take their weight from this class."
    )


class AcceleratorReplicaSerializer(ReadOnlySerializer):
    """A replica on an accelerator, and the memory that it takes there."""

    fleet = serializers.CharField()
    replica = serializers.CharField()
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="Held permanently; null: not set.")
    request_bytes = serializers.IntegerField(help_text="Taken by each request while it runs.")
    request_bytes_per_work = serializers.FloatField(
        help_text="The same, for each unit of its estimated work."
    )


class AcceleratorSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    headroom_percent = serializers.FloatField(help_text="Share of its memory that is kept free.")
    usable_bytes = serializers.IntegerField(help_text="Its memory less the headroom.")
    held_bytes = serializers.IntegerField(help_text="Held permanently by its replicas.")
    leased_bytes = serializers.IntegerField(
        allow_null=True, help_text="Reserved by requests in flight. Null: no proxy reports."
    )
    replicas = AcceleratorReplicaSerializer(many=True)
    created_at = serializers.DateTimeField()


class AcceleratorChangedSerializer(AcceleratorSerializer, WrittenSerializer):
    workers = WorkersSerializer()


class StrategyParameterSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    type = serializers.ChoiceField(choices=["number", "integer", "boolean", "string"])
    default = serializers.JSONField()
    minimum = serializers.FloatField(allow_null=True)
    maximum = serializers.FloatField(allow_null=True)
    words = serializers.CharField(allow_blank=True)


class StrategySerializer(ReadOnlySerializer):
    name = serializers.CharField()
    sentence = serializers.CharField()
    parameters = StrategyParameterSerializer(many=True)


class EventSerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=["health", "ejection", "admin", "policy", "limit", "system"])
    state = serializers.CharField(allow_blank=True)
    fleet = serializers.CharField(allow_null=True)
    fleet_exists = serializers.BooleanField(
        help_text="False: it has been deleted since, or the event has no fleet."
    )
    replica = serializers.CharField(allow_null=True)
    replica_exists = serializers.BooleanField(
        help_text="False: it has been removed since, or the event has no replica."
    )
    revision = serializers.IntegerField(allow_null=True, help_text="Policy revision that the event is about.")
    text = serializers.CharField()
    actor = serializers.CharField(allow_blank=True)
    write = serializers.CharField(
        allow_null=True, help_text="`/audit?write=…` lists the changes; null: no change was made."
    )


class FieldChangeSerializer(ReadOnlySerializer):
    field = serializers.CharField(help_text="Dotted path, for example `timeouts.total_s`.")
    before = serializers.JSONField()
    after = serializers.JSONField()


class AuditEntrySerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    origin = serializers.CharField(
        allow_blank=True,
        help_text="`session` (a page), `token sy_…`, `server` (a command or process); empty: not recorded.",
    )
    verb = serializers.CharField()
    target = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()
    changes = FieldChangeSerializer(many=True)
    write = serializers.CharField(
        allow_null=True, help_text="The same value for all entries of one transaction."
    )


class LiveSerializer(ReadOnlySerializer):
    age_s = serializers.FloatField(allow_null=True, help_text="Age of the frame; null: there is none.")
    frame = serializers.JSONField(help_text="The frame that pages get once a second; null: there is none.")


class ClientKeySerializer(ReadOnlySerializer):
    """A client key of the proxy. Only the response that created it has the key itself."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first characters of the key.")
    fleets = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Fleets that it may use; null: every fleet; empty: those fleets have been deleted.",
    )
    priority = serializers.ChoiceField(
        choices=list(PRIORITIES), help_text="Priority of its requests in the queue: high goes first."
    )
    requests_per_minute = serializers.IntegerField(allow_null=True, help_text="Null: no limit.")
    max_concurrency = serializers.IntegerField(
        allow_null=True, help_text="Concurrent requests, in flight and waiting; null: no limit."
    )
    tokens_per_minute = serializers.IntegerField(
        allow_null=True, help_text="Prompt plus output tokens; null: no limit."
    )
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    revoked_by = serializers.CharField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True, help_text="Null: the key is valid.")


class KeyOutcomeSerializer(ReadOnlySerializer):
    changed = serializers.ListField(
        child=serializers.CharField(),
        help_text="What changed, one line each; empty: everything was already so.",
    )
    published = serializers.BooleanField(
        help_text="False: Redis does not answer, or is another installation's; proxies get the change within "
        "seconds of its return."
    )
    not_published = serializers.CharField(required=False, help_text="Only if it is not: why, and what to do.")
    workers = WorkersSerializer()


class ClientKeyChangedSerializer(ClientKeySerializer, KeyOutcomeSerializer):
    effect = serializers.CharField(
        required=False,
        help_text="Only of the first and the last key: what happens to requests without a key from now on.",
    )


class ClientKeySettingsSerializer(ReadOnlySerializer):
    required = serializers.BooleanField(  # type: ignore[assignment]  # a field of this name, not the option
        help_text="Whether every request needs a client key. The first key turns it on; revoking the last "
        "one does not turn it off."
    )
    keys = serializers.IntegerField(help_text="Client keys in force.")
    effect = serializers.CharField(help_text="What that means for requests.")


class ClientKeySettingsChangedSerializer(ClientKeySettingsSerializer, KeyOutcomeSerializer):
    pass


class ClientKeyMadeSerializer(ClientKeyChangedSerializer):
    key = serializers.CharField(help_text="The key itself. It cannot be shown again.")


class TokenSerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="The first characters of the token.")
    user = serializers.CharField(help_text="User whose permissions it has, at most.")
    role = serializers.ChoiceField(
        choices=RoleGrant.Role.values,
        help_text="It may no more than this, nor than its user may at the time.",
    )
    labels = serializers.DictField(
        child=serializers.CharField(), help_text="Only fleets with all of these labels; empty: no limit."
    )
    service = serializers.BooleanField(help_text="Whether it outlives its user's password.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="Null: never.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="Accurate to a minute; null: it has never been used."
    )


class TokenMadeSerializer(TokenSerializer):
    token = serializers.CharField(help_text="The token itself. It cannot be shown again.")
