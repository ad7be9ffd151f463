"""The pages. The server sends their frame; what moves comes over the WebSocket and the API."""

import json
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.models import Fleet
from routing.contract.presets import PRESETS

NAMES_IN_NAVIGATION = 20


@never_cache
@require_safe
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/overview.html", _shell("overview"))


@never_cache
@require_safe
@login_required
def fleet(request: HttpRequest, name: str) -> HttpResponse:
    found = get_object_or_404(Fleet, name=name)
    return render(request, "dashboard/fleet.html", {"fleet": found, **_shell("fleet")})


@never_cache
@require_safe
@login_required
def hardware(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/hardware.html", _shell("hardware"))


@never_cache
@require_safe
@login_required
def events(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/events.html", {"events_days": settings.EVENTS_DAYS, **_shell("events")})


@never_cache
@require_safe
@login_required
def client_keys(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/client_keys.html", _shell("client keys"))


@never_cache
@require_safe
@login_required
def tokens(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/tokens.html", _shell("API tokens"))


@never_cache
@require_safe
@login_required
def system(request: HttpRequest) -> HttpResponse:
    return render(request, "dashboard/system.html", _shell("system"))


def _shell(page: str) -> dict[str, Any]:
    """What every page shows around its content; ``page`` is the one that the navigation marks."""
    names = Fleet.objects.values_list("name", flat=True)[:NAMES_IN_NAVIGATION]
    presets = json.dumps([[name, preset.words] for name, preset in PRESETS.items()])
    return {"page": page, "fleets": names, "proxy_url": settings.PROXY_URL, "presets": presets}
