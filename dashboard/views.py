"""The pages. The server sends their frame; what moves comes over the WebSocket and the API."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.datastores.redis_gate import gate
from controlplane.models import ClientKey, Fleet
from routing.contract.probe_presets import PRESETS

NAMES_IN_NAVIGATION = 20

Content = dict[str, Any]


def page(content: Callable[..., Content]) -> Callable[..., HttpResponse]:
    """A page for whoever is signed in, never from a cache. Its template is called as the function is; the
    function gets what the address holds, and answers what the template shows besides the shell."""

    @never_cache
    @require_safe
    @login_required
    @wraps(content)
    def view(request: HttpRequest, **held: str) -> HttpResponse:
        name = content.__name__
        return render(request, f"dashboard/{name}.html", {**_shell(name), **content(**held)})

    return view


@page
def overview() -> Content:
    return {"keys": _client_key_required()}


@page
def fleet(name: str) -> Content:
    return {"fleet": get_object_or_404(Fleet, name=name), "keys": _client_key_required()}


@page
def hardware() -> Content:
    return {}


@page
def events() -> Content:
    return {"events_days": settings.EVENTS_DAYS}


@page
def client_keys() -> Content:
    return {}


@page
def tokens() -> Content:
    return {}


@page
def system() -> Content:
    return {}


def _client_key_required() -> bool:
    """Whether there is a client key, so that requests through the proxy need one."""
    return ClientKey.objects.filter(revoked_at=None).exists()


def _shell(name: str) -> Content:
    """What every page shows around its content; ``name`` is the one that the navigation marks."""
    names = Fleet.objects.values_list("name", flat=True)[:NAMES_IN_NAVIGATION]
    presets = json.dumps([[preset_name, preset.words] for preset_name, preset in PRESETS.items()])
    shown = {"page": name, "fleets": names, "proxy_url": settings.PROXY_URL, "presets": presets}
    return {**shown, "redis_refused": gate.words}
