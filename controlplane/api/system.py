"""``GET /system``: every part of Switchyard and how it is."""

from typing import Any

import msgspec
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import reads
from controlplane.api.serializers import ReadOnlySerializer
from controlplane.system.report import system
from controlplane.system.status import LEVELS


class JudgedSerializer(ReadOnlySerializer):
    level = serializers.ChoiceField(LEVELS, help_text="`calm`: nothing to do. `bad`: something fails.")
    state = serializers.CharField(help_text="One word or two, as the page shows it.")
    words = serializers.CharField(help_text="One sentence.")
    cure = serializers.CharField(help_text="What to do; empty: nothing.")


class SystemPartSerializer(JudgedSerializer):
    name = serializers.CharField()
    title = serializers.CharField()
    facts = serializers.DictField(child=serializers.CharField(), help_text="Name → value with its unit.")


class ProxyWorkerSerializer(JudgedSerializer):
    name = serializers.CharField()
    proxy = serializers.CharField(help_text="Workers of one proxy share it.")
    site = serializers.CharField(allow_blank=True, help_text="Where its proxy says that it is.")
    software = serializers.CharField()
    pid = serializers.IntegerField()
    table = serializers.CharField(help_text="`epoch:version` of its list of fleets.")
    behind = serializers.ListField(
        child=serializers.CharField(), help_text="Fleets of which it routes from an older table."
    )
    age_s = serializers.FloatField(help_text="Since its last report.")
    uptime_s = serializers.FloatField()
    cpu_percent = serializers.FloatField(allow_null=True, help_text="Of one CPU; null: not measured.")
    clients = serializers.IntegerField(help_text="Open connections of clients.")
    upstreams = serializers.IntegerField(help_text="Open connections to replicas.")
    in_flight = serializers.IntegerField(help_text="Requests being answered.")


class ProcessSerializer(JudgedSerializer):
    name = serializers.CharField(help_text="`host/pid`.")
    role = serializers.CharField(help_text="`web`, `worker`, `beat` or `conductor`.")
    software = serializers.CharField()
    age_s = serializers.FloatField(help_text="Since its last sign of life.")
    uptime_s = serializers.FloatField()
    cpu_percent = serializers.FloatField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="Most that was ever resident.")


class SystemSerializer(ReadOnlySerializer):
    verdict = JudgedSerializer()
    table = serializers.CharField(
        allow_null=True, help_text="`epoch:version` of the newest list of fleets; null: the database is away."
    )
    software = serializers.CharField()
    parts = SystemPartSerializer(many=True)
    proxies = ProxyWorkerSerializer(many=True)
    processes = ProcessSerializer(many=True)
    reports_known = serializers.BooleanField(
        help_text="False: Redis is away, so nothing is known of proxies and processes."
    )


class SystemView(ApiView):
    @reads("get_system", "Every part of Switchyard and how it is", SystemSerializer())
    def get(self, request: Request) -> Response:
        answer: Any = msgspec.to_builtins(system())
        return Response(answer)
