"""``/docs``: the API as a page, under the same content security policy as every other page."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import IsAuthenticated


class Schema(SpectacularAPIView):
    """The OpenAPI document itself (YAML, or JSON with ``?format=json``)."""

    permission_classes = [IsAuthenticated]


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """How the OpenAPI document describes token authentication. Importing this registers it."""

    target_class = "controlplane.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Authorization: Token sy_…`; `.venv/bin/switchyard createtoken USER NAME` prints "
            "one.",
        }


@extend_schema(exclude=True)
class Docs(SpectacularSwaggerSplitView):
    """Its script is served by this same address with ``?script=``, because inline scripts are refused."""

    permission_classes = [IsAuthenticated]
    template_name = "controlplane/api_docs.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode({'next': request.path})}")
        return super().dispatch(request, *args, **kwargs)
