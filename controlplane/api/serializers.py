"""The shapes of answers, for the OpenAPI document. What may be *sent* is in ``rule_schemas.py``."""

from rest_framework import serializers

from routing.balancing.strategies import registry
from routing.contract.priority import PRIORITIES

PROTOCOLS = ["openai", "open-inference", "generic"]
ADMIN_STATES = ["active", "draining", "maintenance"]
ReadOnlySerializer = serializers.Serializer[object]

HEALTH = ["checking", "ready", "unready", "down"]


class FieldProblemSerializer(ReadOnlySerializer):
    pointer = serializers.CharField(help_text="JSON pointer into the body; empty: the whole of it.")
    detail = serializers.CharField()


class ProblemSerializer(ReadOnlySerializer):
    """RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = FieldProblemSerializer(many=True)  # type: ignore[assignment]  # hides a property for one class


class WorkersSerializer(ReadOnlySerializer):
    """Proxy workers and the version that carries the change."""

    live = serializers.IntegerField(help_text="Workers heard within the last 5 seconds.")
    applied = serializers.IntegerField(help_text="Of these, how many route from this version.")
    refused = serializers.IntegerField(help_text="Of these, how many said that they cannot.")
    waited_ms = serializers.FloatField()


class WrittenSerializer(ReadOnlySerializer):
    """What became of a write."""

    changed = serializers.ListField(
        child=serializers.CharField(), help_text="What changed, one line each; empty: nothing had to."
    )
    published = serializers.BooleanField(
        help_text="False: Redis is away; proxies get the change within seconds of its return."
    )


class OutcomeSerializer(WrittenSerializer):
    revision = serializers.IntegerField(help_text="Policy revision in force.")
    table_version = serializers.CharField(help_text="`epoch:version` of the snapshot that shows the change.")
    workers = WorkersSerializer()


class StrategyParametersField(serializers.DictField):
    child = serializers.JSONField()


class TimeoutsSerializer(ReadOnlySerializer):
    head_s = serializers.FloatField()
    body_grace_s = serializers.FloatField()
    body_min_bytes_per_s = serializers.FloatField()
    connect_s = serializers.FloatField()
    first_byte_s = serializers.FloatField()
    idle_s = serializers.FloatField()
    stall_s = serializers.FloatField()
    total_s = serializers.FloatField()


class LimitsSerializer(ReadOnlySerializer):
    max_body_bytes = serializers.IntegerField()


class RetriesSerializer(ReadOnlySerializer):
    budget_percent = serializers.FloatField()
    replay_safe = serializers.ChoiceField(choices=["auto", "always", "never"])
    statuses = serializers.ListField(child=serializers.IntegerField())


class EjectionSerializer(ReadOnlySerializer):
    consecutive_failures = serializers.IntegerField()
    base_s = serializers.FloatField()
    max_ejected_percent = serializers.FloatField()


class QueueSerializer(ReadOnlySerializer):
    """Where requests wait while no replica has a free slot."""

    size = serializers.IntegerField()
    timeout_s = serializers.FloatField()
    cold = serializers.ChoiceField(choices=["refuse", "hold"])
    cold_timeout_s = serializers.FloatField()
    at = serializers.ChoiceField(choices=["proxy", "replica"])


class LocalitySerializer(ReadOnlySerializer):
    """Which site's replicas are asked, where proxies and replicas say where they are."""

    prefer = serializers.ChoiceField(choices=["site", "none"])
    spill_above = serializers.FloatField()


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
    set = serializers.DictField(help_text="Only what differs from the defaults.")


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
        child=serializers.CharField(), help_text="LoRA adapters that the replicas serve besides."
    )
    match = MatchSerializer(many=True, help_text="Hosts and paths whose requests are its own.")
    served_model = serializers.CharField(allow_blank=True)
    credential = serializers.CharField(
        allow_blank=True, help_text="Where the bearer token of its replicas is, never the token."
    )
    default = serializers.BooleanField()
    strategy = serializers.CharField()
    probe = ProbeSerializer()
    tls = TlsSerializer()
    revision = serializers.IntegerField()
    table_version = serializers.CharField()
    replicas = serializers.IntegerField(help_text="How many it has.")
    health = HealthCountsField(help_text="How many replicas are of each health.")
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
        allow_null=True, help_text="How long its last start took; null: none has been seen."
    )
    expected_in_s = serializers.FloatField(
        allow_null=True,
        help_text="About how long until it is ready, by how long its own last start or those of the fleet's "
        "others took; 0: it takes longer than that. Null: it does not start, or no start has been seen.",
    )


class DrainedAtSerializer(ReadOnlySerializer):
    proxy = serializers.CharField()
    expires_in_s = serializers.IntegerField()


class ReplicaSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    uid = serializers.CharField()
    url = serializers.CharField()
    hardware = serializers.CharField(allow_null=True)
    weight = serializers.FloatField(allow_null=True, help_text="As set; null: the hardware class's.")
    effective_weight = serializers.FloatField()
    max_concurrency = serializers.IntegerField(allow_null=True)
    accelerators = serializers.ListField(child=serializers.CharField(), help_text="Devices that it runs on.")
    memory_bytes = serializers.IntegerField(
        allow_null=True, help_text="What it holds on each of them all the time; null: not said."
    )
    request_bytes = serializers.IntegerField(help_text="What a request takes on each of them while it runs.")
    request_bytes_per_work = serializers.FloatField(help_text="The same for each unit of its estimated work.")
    site = serializers.CharField(
        allow_blank=True, help_text="Where it is; empty: near to proxies of every site."
    )
    credential = serializers.CharField(
        allow_blank=True, help_text="Where its bearer token is, never the token; empty: the fleet's."
    )
    admin_state = serializers.ChoiceField(choices=ADMIN_STATES)
    health = HealthSerializer()
    ejected = serializers.BooleanField(allow_null=True, help_text="Null: no proxy reports at the moment.")
    eligible = serializers.BooleanField(help_text="Whether admin state, health and ejection all allow it.")
    why = serializers.CharField(help_text="Which of them does not, in plain words.")
    drained_by_hand = DrainedAtSerializer(
        many=True, help_text="Proxies at which somebody took it out, over the proxy's admin listener."
    )
    in_flight = serializers.IntegerField(allow_null=True, help_text="Null: no proxy reports at the moment.")
    safe_to_stop = serializers.BooleanField(
        allow_null=True,
        help_text="Taken out at every proxy worker, and nothing in flight. Null: no proxy reports.",
    )
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class FitsSerializer(ReadOnlySerializer):
    probe = serializers.DictField(help_text="As a fleet's `probe` is written.")
    words = serializers.CharField()


class TrialSerializer(ReadOnlySerializer):
    """What one address answered, asked as its probes will ask it."""

    outcome = serializers.ChoiceField(
        choices=["ready", "unready", "down", "refused"],
        help_text="`refused`: no replica may be at that address; nothing was sent there.",
    )
    words = serializers.CharField(help_text="What was seen, and what to look at.")
    url = serializers.CharField(help_text="In its normal form.")
    asked = serializers.CharField(help_text="The request, as in `GET /health`.")
    preset = serializers.CharField()
    status = serializers.IntegerField(allow_null=True, help_text="Null: no answer in HTTP.")
    latency_ms = serializers.FloatField(allow_null=True, help_text="Null: no answer in HTTP.")
    fits = FitsSerializer(allow_null=True, help_text="Another probe that suits what the server answers.")


class TrialsField(serializers.DictField):
    child = TrialSerializer()


class FleetCreatedSerializer(FleetChangedSerializer):
    trials = TrialsField(
        help_text="Of each replica by its name; empty: not tried (`?trial=no`, or more than 20)."
    )


class ReplicaChangedSerializer(ReplicaSerializer, OutcomeSerializer):
    trial = TrialSerializer(
        allow_null=True, help_text="Null: not tried: `?trial=no`, or its address is what it was."
    )


class RevisionSerializer(ReadOnlySerializer):
    number = serializers.IntegerField()
    policy = PolicyValuesSerializer()
    weights = serializers.DictField(child=serializers.FloatField(allow_null=True))
    actor = serializers.CharField()
    summary = serializers.CharField()
    created_at = serializers.DateTimeField()


class RevisionSeenSerializer(RevisionSerializer):
    would_change = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="What going back to it would change now, one line each; null: it is refused.",
    )
    refused = serializers.CharField(allow_blank=True, help_text="Why one cannot go back to it.")


class HardwareClassSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    weight = serializers.FloatField()
    replicas = serializers.IntegerField(help_text="How many are of this class.")
    created_at = serializers.DateTimeField()


class FleetReachedSerializer(ReadOnlySerializer):
    """A fleet that a change of something else reaches."""

    name = serializers.CharField()
    table_version = serializers.CharField(help_text="`epoch:version` of the snapshot that shows the change.")
    workers = WorkersSerializer()


class HardwareClassChangedSerializer(HardwareClassSerializer, WrittenSerializer):
    fleets = FleetReachedSerializer(
        many=True, help_text="Fleets with replicas that take their weight from it."
    )


class PlacedSerializer(ReadOnlySerializer):
    """A replica on an accelerator, and what it asks of it."""

    fleet = serializers.CharField()
    replica = serializers.CharField()
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="All the time; null: not said.")
    request_bytes = serializers.IntegerField(help_text="For each request while it runs.")
    request_bytes_per_work = serializers.FloatField(help_text="The same for each unit of its estimated work.")


class AcceleratorSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    memory_bytes = serializers.IntegerField()
    headroom_percent = serializers.FloatField(help_text="Of its memory, kept free.")
    usable_bytes = serializers.IntegerField(help_text="Its memory less the headroom.")
    held_bytes = serializers.IntegerField(help_text="What its replicas hold all the time.")
    leased_bytes = serializers.IntegerField(
        allow_null=True, help_text="Reserved by requests in flight. Null: no proxy reports at the moment."
    )
    replicas = PlacedSerializer(many=True)
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
    fleet_exists = serializers.BooleanField(help_text="False: it has been deleted since, or there is none.")
    replica = serializers.CharField(allow_null=True)
    replica_exists = serializers.BooleanField(help_text="False: it has been removed since, or there is none.")
    revision = serializers.IntegerField(allow_null=True, help_text="Policy revision that it speaks of.")
    text = serializers.CharField()
    actor = serializers.CharField(allow_blank=True)
    write = serializers.CharField(
        allow_null=True, help_text="`/audit?write=…` says what it changed; null: nobody changed anything."
    )


class FieldChangeSerializer(ReadOnlySerializer):
    field = serializers.CharField(help_text="Dotted path, as in `timeouts.total_s`.")
    before = serializers.JSONField()
    after = serializers.JSONField()


class AuditEntrySerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField()
    origin = serializers.CharField(
        allow_blank=True,
        help_text="`session` (a page), `token sy_…`, `server` (a command or process); empty: not kept.",
    )
    verb = serializers.CharField()
    target = serializers.CharField()
    before = serializers.JSONField()
    after = serializers.JSONField()
    changes = FieldChangeSerializer(many=True)
    write = serializers.CharField(allow_null=True, help_text="The same for all that one transaction wrote.")


class LiveSerializer(ReadOnlySerializer):
    age_s = serializers.FloatField(allow_null=True, help_text="Age of the frame; null: there is none.")
    frame = serializers.JSONField(help_text="As pages get it once a second; null: there is none.")


class ClientKeySerializer(ReadOnlySerializer):
    """A key that clients of the proxy present. The key itself is in no answer but the one that made it."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="How the key begins.")
    fleets = serializers.ListField(
        child=serializers.CharField(),
        allow_null=True,
        help_text="Fleets that it opens; null: every fleet; empty: they have been deleted.",
    )
    priority = serializers.ChoiceField(
        choices=list(PRIORITIES), help_text="Class of its requests in the queue: high goes first."
    )
    requests_per_minute = serializers.IntegerField(allow_null=True, help_text="Null: no limit.")
    max_concurrency = serializers.IntegerField(
        allow_null=True, help_text="Requests in flight and waiting at one time; null: no limit."
    )
    tokens_per_minute = serializers.IntegerField(
        allow_null=True, help_text="Prompt and output tokens together; null: no limit."
    )
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    revoked_by = serializers.CharField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True, help_text="Null: the key is in force.")


class KeyOutcomeSerializer(ReadOnlySerializer):
    changed = serializers.ListField(
        child=serializers.CharField(), help_text="What changed, one line each; empty: nothing had to."
    )
    published = serializers.BooleanField(
        help_text="False: Redis is away; proxies get the change within seconds of its return."
    )
    workers = WorkersSerializer()


class ClientKeyChangedSerializer(ClientKeySerializer, KeyOutcomeSerializer):
    pass


class ClientKeyMadeSerializer(ClientKeyChangedSerializer):
    key = serializers.CharField(help_text="The key itself. It cannot be shown again.")


class TokenSerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField(help_text="How the token begins.")
    user = serializers.CharField(help_text="Whose rights it carries.")
    created_at = serializers.DateTimeField()
    last_used_at = serializers.DateTimeField(
        allow_null=True, help_text="To within a minute; null: it has never been used."
    )


class TokenMadeSerializer(TokenSerializer):
    token = serializers.CharField(help_text="The token itself. It cannot be shown again.")
