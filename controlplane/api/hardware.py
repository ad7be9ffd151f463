"""``/hardware-classes`` and ``/hardware-classes/{name}``."""

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import filters, presenters, request_schemas
from controlplane.api.base import ApiView, body_of, confirmation, expected_version, versioned
from controlplane.api.fleets import WAIT_S
from controlplane.api.openapi_operations import CONFIRM, SEARCH, changes, creates, deletes, lists, reads
from controlplane.api.serializers.hardware import HardwareClassChangedSerializer, HardwareClassSerializer
from controlplane.models import HardwareClass
from controlplane.services import hardware
from controlplane.services.lookup import hardware_named


class HardwareList(ApiView):
    limited = ("GET",)
    query_parameters = ("search", "page", "page_size")

    @lists("list_hardware_classes", "Hardware classes", HardwareClassSerializer, SEARCH)
    def get(self, request: Request) -> Response:
        rows = HardwareClass.objects.filter(filters.search(request, "name")).order_by("name")
        return self.paged(request, rows, presenters.hardware_classes)

    @creates(
        "create_hardware_class",
        "Create a hardware class",
        request_schemas.NEW_HARDWARE,
        HardwareClassSerializer,
    )
    def post(self, request: Request) -> Response:
        row = hardware.create(body_of(request), request.user.get_username())
        return versioned(presenters.hardware(row), row.edit_version, 201)


class HardwareDetail(ApiView):
    limited = ("GET",)
    write_parameters = {"PATCH": ("confirm",)}

    @reads("get_hardware_class", "One hardware class", HardwareClassSerializer)
    def get(self, request: Request, name: str) -> Response:
        row = hardware_named(name)
        return versioned(presenters.hardware(row), row.edit_version)

    @changes(
        "change_hardware_class",
        "Change its weight, and that of its replicas",
        request_schemas.HARDWARE_CHANGES,
        HardwareClassChangedSerializer,
        CONFIRM,
    )
    def patch(self, request: Request, name: str) -> Response:
        change = hardware.update(
            name,
            body_of(request),
            request.user.get_username(),
            if_version=expected_version(request),
            confirm=confirmation(request),
        )
        row = change.hardware
        data = {**presenters.hardware(row), **presenters.hardware_outcome(change, WAIT_S)}
        return versioned(data, row.edit_version)

    @deletes("delete_hardware_class", "Delete a hardware class that no replica uses")
    def delete(self, request: Request, name: str) -> Response:
        hardware.delete(name, request.user.get_username(), if_version=expected_version(request))
        return Response(status=204)
