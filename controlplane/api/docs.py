"""``/docs``: the API as a page, under the same content security policy as every other page."""

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponseRedirect
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import IsAuthenticated

from controlplane.api import openapi_token_scheme  # noqa: F401  (registers it)


class Schema(SpectacularAPIView):
    """The OpenAPI document itself (YAML, or JSON with ``?format=json``)."""

    permission_classes = [IsAuthenticated]


@extend_schema(exclude=True)
class Docs(SpectacularSwaggerSplitView):
    """Its script is served by this same address with ``?script=``, because inline scripts are refused."""

    permission_classes = [IsAuthenticated]
    template_name = "controlplane/api_docs.html"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return HttpResponseRedirect(f"{settings.LOGIN_URL}?{urlencode({'next': request.path})}")
        return super().dispatch(request, *args, **kwargs)
