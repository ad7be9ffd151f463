"""The pages. The server sends their frame; what moves comes over the WebSocket and the API."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.access.grants import Access, access_of
from controlplane.access.roles import Role
from controlplane.datastores.redis_gate import gate
from controlplane.models import Fleet
from controlplane.publishing.snapshots import current_state
from routing.contract.probe_presets import PRESETS

NAMES_IN_NAVIGATION = 20
FOR_ALL_FLEETS = ("client_keys", "system")
"""Pages of what belongs to no fleet: for accounts whose role is for all of them."""
FOR_SOME_FLEETS = ("overview", "alerts")
"""Pages on which a role in some fleets does something: fleets with their labels, silences of their alerts."""

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
        access = access_of(request.user)
        if name in FOR_ALL_FLEETS and access.everywhere is None:
            raise PermissionDenied(f"This page needs a role for all fleets; yours is {access.text()}.")
        context = {**_shell(name, access), **content(**held)}
        if isinstance(shown := context.get("fleet"), Fleet):
            context |= _rights(access.of_labels(shown.labels))
        return render(request, f"dashboard/{name}.html", context)

    return view


@page
def overview() -> Content:
    return {"keys": _client_key_required()}


@page
def fleet(name: str) -> Content:
    return {"fleet": get_object_or_404(Fleet, name=name), "keys": _client_key_required()}


@page
def alerts() -> Content:
    return {}


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
    """Whether requests through the proxy need a client key."""
    return current_state().keys_required


def _rights(role: Role | None) -> Content:
    """Which of its buttons a page shows. The API decides whether they work."""
    if role is None:
        raise Http404
    return {"may_change": role >= Role.ADMINISTER, "may_operate": role >= Role.OPERATE}


def _shell(name: str, access: Access) -> Content:
    """What every page shows around its content; ``name`` is the one that the navigation marks."""
    names = Fleet.objects.filter(access.rows("name")).values_list("name", flat=True)[:NAMES_IN_NAVIGATION]
    role = access.anywhere if name in FOR_SOME_FLEETS else access.everywhere
    presets = json.dumps([[preset_name, preset.words] for preset_name, preset in PRESETS.items()])
    shown = {"page": name, "fleets": names, "proxy_url": settings.PROXY_URL, "presets": presets}
    rights = _rights(role or Role.READ)
    rights["all_fleets"] = access.everywhere is not None
    rights["administers_all"] = access.everywhere == Role.ADMINISTER
    return {**shown, **rights, "redis_refused": gate.words}
