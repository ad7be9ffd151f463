"""``GET /system``: every part of Switchyard and how it is."""

from typing import Any

import msgspec
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import ApiView
from controlplane.api.openapi_operations import reads
from controlplane.api.serializers.common import ReadOnlySerializer
from controlplane.system.report import system
from controlplane.system.status import LEVELS


class StatusSerializer(ReadOnlySerializer):
    level = serializers.ChoiceField(LEVELS, help_text="`calm`: nothing to do. `bad`: something fails.")
    state = serializers.CharField(help_text="One or two words, as the page shows them.")
    words = serializers.CharField(help_text="One sentence.")
    cure = serializers.CharField(help_text="What to do; empty: nothing to do.")


class SystemPartSerializer(StatusSerializer):
    name = serializers.CharField()
    title = serializers.CharField()
    facts = serializers.DictField(child=serializers.CharField(), help_text="Name → value with its unit.")


class ProxyWorkerSerializer(StatusSerializer):
    name = serializers.CharField()
    proxy = serializers.CharField(help_text="Workers of one proxy share it.")
    site = serializers.CharField(allow_blank=True, help_text="Site of its proxy.")
    software = serializers.CharField()
    pid = serializers.IntegerField()
    table = serializers.CharField(help_text="`epoch:version` of its list of fleets.")
    behind = serializers.ListField(
        child=serializers.CharField(), help_text="Fleets for which it still routes from an older table."
    )
    age_s = serializers.FloatField(help_text="Age of its last report.")
    uptime_s = serializers.FloatField()
    cpu_percent = serializers.FloatField(allow_null=True, help_text="Of one CPU; null: not measured.")
    clients = serializers.IntegerField(help_text="Open client connections.")
    upstreams = serializers.IntegerField(help_text="Open connections to replicas.")
    in_flight = serializers.IntegerField(help_text="Requests in flight.")


class ProcessSerializer(StatusSerializer):
    name = serializers.CharField(help_text="`host/pid`.")
    role = serializers.CharField(help_text="`web`, `worker`, `beat` or `conductor`.")
    software = serializers.CharField()
    age_s = serializers.FloatField(help_text="Age of its last heartbeat.")
    uptime_s = serializers.FloatField()
    cpu_percent = serializers.FloatField(allow_null=True)
    memory_bytes = serializers.IntegerField(allow_null=True, help_text="Peak resident memory.")


class SystemSerializer(ReadOnlySerializer):
    verdict = StatusSerializer()
    table = serializers.CharField(
        allow_null=True,
        help_text="`epoch:version` of the newest list of fleets; null: the database does not answer.",
    )
    software = serializers.CharField()
    parts = SystemPartSerializer(many=True)
    proxies = ProxyWorkerSerializer(many=True)
    processes = ProcessSerializer(many=True)
    reports_known = serializers.BooleanField(
        help_text="False: Redis does not answer, so the state of proxies and processes is unknown."
    )


class SystemView(ApiView):
    @reads("get_system", "Health of every part of Switchyard", SystemSerializer())
    def get(self, request: Request) -> Response:
        answer: Any = msgspec.to_builtins(system())
        return Response(answer)
