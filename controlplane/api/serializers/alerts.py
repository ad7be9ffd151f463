"""Answers about alerts: what fires, rules, destinations and silences."""

from rest_framework import serializers

from controlplane.alerts.rule_types import SEVERITIES
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.models import Alert, AlertDestination


class AlertSilencedSerializer(ReadOnlySerializer):
    """Of an alert the silence that covers it."""

    id = serializers.IntegerField()
    reason = serializers.CharField()
    ends_at = serializers.DateTimeField()
    created_by = serializers.CharField()


class AlertSerializer(ReadOnlySerializer):
    id = serializers.CharField(help_text="The same in notifications.")
    rule = serializers.CharField()
    title = serializers.CharField()
    state = serializers.ChoiceField(choices=Alert.AlertState.values)
    severity = serializers.ChoiceField(choices=SEVERITIES)
    fleet = serializers.CharField(allow_null=True)
    replica = serializers.CharField(allow_null=True)
    part = serializers.CharField(
        allow_null=True,
        help_text="Of Switchyard or a host: a process, a proxy, an accelerator, a destination.",
    )
    why = serializers.CharField()
    value = serializers.FloatField(allow_null=True)
    unit = serializers.CharField(allow_blank=True, help_text="Of `value`; empty: a plain number, or none.")
    since = serializers.DateTimeField(help_text="When its condition was found first.")
    fired_at = serializers.DateTimeField(allow_null=True, help_text="Null: it is pending.")
    resolved_at = serializers.DateTimeField(allow_null=True)
    silence = AlertSilencedSerializer(allow_null=True, help_text="Null: it is not silenced.")


class AlertCountsSerializer(ReadOnlySerializer):
    critical = serializers.IntegerField()
    warning = serializers.IntegerField()
    evaluated_age_s = serializers.FloatField(
        allow_null=True,
        help_text="Since alerts were evaluated last, which is done each 5 s; null: unknown, or over an hour.",
    )


class AlertRuleSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    title = serializers.CharField()
    about = serializers.CharField(help_text="When its condition holds.")
    built_in = serializers.BooleanField()
    changed = serializers.BooleanField(help_text="Whether a built-in one is not as it came.")
    enabled = serializers.BooleanField()
    severity = serializers.ChoiceField(choices=SEVERITIES)
    for_s = serializers.FloatField(help_text="How long its condition must hold before it fires.")
    keep_s = serializers.FloatField(help_text="How long it must be gone before its alert is resolved.")
    fleet = serializers.CharField(allow_null=True, help_text="Null: every fleet.")
    metric = serializers.CharField(allow_null=True, help_text="Null: it is a built-in one, as what follows.")
    comparison = serializers.ChoiceField(choices=("above", "below"), allow_null=True)
    value = serializers.FloatField(allow_null=True)
    clear_value = serializers.FloatField(allow_null=True)
    unit = serializers.CharField(allow_blank=True, help_text="Of both values.")


class AlertDestinationSerializer(ReadOnlySerializer):
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=AlertDestination.DestinationKind.values)
    enabled = serializers.BooleanField()
    url = serializers.CharField(
        allow_null=True, help_text="A reference as it is; a URL without its path, which may be secret."
    )
    credential = serializers.CharField(allow_null=True, help_text="Reference to a bearer token.")
    to = serializers.ListField(child=serializers.CharField(), help_text="E-mail addresses.")
    severity = serializers.ChoiceField(choices=SEVERITIES, help_text="The lowest that it is told of.")
    fleets = serializers.ListField(
        child=serializers.CharField(), help_text="Empty: all, and what belongs to no fleet."
    )
    repeat_s = serializers.FloatField()
    waiting = serializers.IntegerField(help_text="Notifications that it has not taken yet.")
    failing_since = serializers.DateTimeField(allow_null=True, help_text="Null: it took the last one.")
    last_answer = serializers.CharField(allow_blank=True)
    last_taken = serializers.BooleanField(
        allow_null=True, help_text="Whether it took what was sent last, a test too; null: nothing was sent."
    )
    last_sent_at = serializers.DateTimeField(allow_null=True)
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class AlertDestinationWrittenSerializer(AlertDestinationSerializer):
    secret = serializers.CharField(
        allow_null=True,
        help_text="With which messages are signed (Standard Webhooks). It cannot be shown again; null: it is "
        "not new, or this kind has none.",
    )


class AlertTestSerializer(ReadOnlySerializer):
    """What a destination answered to a test."""

    taken = serializers.BooleanField()
    answer = serializers.CharField(help_text="What it answered, or why there was no answer.")


class AlertSilenceSerializer(ReadOnlySerializer):
    id = serializers.IntegerField()
    rule = serializers.CharField(allow_null=True, help_text="Null: any, as the three that follow.")
    fleet = serializers.CharField(allow_null=True)
    replica = serializers.CharField(allow_null=True)
    part = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    ended_by = serializers.CharField(allow_null=True, help_text="Who ended it before its time.")
    active = serializers.BooleanField()
