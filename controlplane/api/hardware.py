"""``/hardware-classes`` and ``/hardware-classes/{name}``."""

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, represent, rule_schemas, serializers
from controlplane.api.base import ApiView, body_of, expected_version, versioned
from controlplane.api.documented import SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.fleets import WAIT_S
from controlplane.models import HardwareClass
from controlplane.services import hardware
from controlplane.services.lookup import hardware_named


class HardwareList(ApiView):
    query_parameters = ("search", "page", "page_size")

    @lists("list_hardware_classes", "Hardware classes", serializers.HardwareClass, SEARCH)
    def get(self, request: Request) -> Response:
        rows = HardwareClass.objects.filter(filters.search(request, "name")).order_by("name")
        return self.paged(request, rows, represent.hardware_classes)

    @creates(
        "create_hardware_class",
        "Create a hardware class",
        rule_schemas.NEW_HARDWARE,
        serializers.HardwareClass,
    )
    def post(self, request: Request) -> Response:
        row = hardware.create(body_of(request), request.user.get_username())
        return versioned(represent.hardware(row), row.edit_version, 201)


class HardwareDetail(ApiView):
    @reads("get_hardware_class", "One hardware class", serializers.HardwareClass)
    def get(self, request: Request, name: str) -> Response:
        row = hardware_named(name)
        return versioned(represent.hardware(row), row.edit_version)

    @changes(
        "change_hardware_class",
        "Change its weight, and that of its replicas",
        rule_schemas.HARDWARE_CHANGES,
        serializers.HardwareClassChanged,
    )
    def patch(self, request: Request, name: str) -> Response:
        change = hardware.update(
            name, body_of(request), request.user.get_username(), if_version=expected_version(request)
        )
        row = change.hardware
        data = {**represent.hardware(row), **represent.hardware_outcome(change, WAIT_S)}
        return versioned(data, row.edit_version)

    @deletes("delete_hardware_class", "Delete a hardware class that no replica uses")
    def delete(self, request: Request, name: str) -> Response:
        hardware.delete(name, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)
