"""Access matrix: what each address of each port may be asked, and by whom.

Declared by hand, compared with what is there and with what happens. A new address or method needs its line
here, and docs/security.md its table anew: ``python -m tests.security.access_table docs/security.md``.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class Role(IntEnum):
    """Each includes those before it."""

    NOBODY = 0
    """A stranger."""
    READ = 1
    OPERATE = 2
    ADMINISTER = 3


class Need(NamedTuple):
    """What a method of an address needs."""

    role: Role
    all_fleets: bool = False
    """It concerns all of them. Else a role in the fleet of the address is enough; where there is none in the
    address, a role in any: the rest is left out of what is answered."""
    whole_token: bool = False
    """A token that is limited to a role is refused, whichever it is."""


OPEN = Need(Role.NOBODY)
READ, OPERATE, ADMINISTER = Need(Role.READ), Need(Role.OPERATE), Need(Role.ADMINISTER)
READ_ALL, ADMINISTER_ALL = Need(Role.READ, True), Need(Role.ADMINISTER, True)
OPERATE_ALL = Need(Role.OPERATE, True)

Methods = Mapping[str, Need]
"""Method → what it needs. HEAD goes with GET. What is not named is refused to everybody."""

API: Mapping[str, Methods] = {
    "/api/v1/fleets": {"GET": READ, "POST": ADMINISTER},
    "/api/v1/fleets/<str:fleet>": {"GET": READ, "PATCH": ADMINISTER, "DELETE": ADMINISTER},
    "/api/v1/fleets/<str:fleet>/policy": {"GET": READ, "PATCH": OPERATE},
    "/api/v1/fleets/<str:fleet>/revisions": {"GET": READ},
    "/api/v1/fleets/<str:fleet>/revisions/<int:number>": {"GET": READ},
    "/api/v1/fleets/<str:fleet>/revisions/<int:number>/restore": {"POST": OPERATE},
    "/api/v1/fleets/<str:fleet>/replicas": {"GET": READ, "POST": ADMINISTER},
    "/api/v1/fleets/<str:fleet>/replicas/<str:replica>": {
        "GET": READ,
        "PATCH": OPERATE,
        "DELETE": ADMINISTER,
    },
    "/api/v1/fleets/<str:fleet>/replicas/<str:replica>/probes": {"GET": READ, "POST": OPERATE},
    "/api/v1/fleets/<str:fleet>/replicas/<str:replica>/history": {"GET": READ},
    "/api/v1/fleets/<str:fleet>/sources": {"GET": READ, "POST": ADMINISTER_ALL},
    "/api/v1/fleets/<str:fleet>/sources/<str:source>": {
        "GET": READ,
        "PATCH": ADMINISTER_ALL,
        "DELETE": ADMINISTER,
    },
    "/api/v1/fleets/<str:fleet>/sources/<str:source>/resync": {"POST": OPERATE},
    "/api/v1/fleets/<str:fleet>/source-trials": {"POST": ADMINISTER_ALL},
    "/api/v1/fleets/<str:fleet>/sources/<str:source>/leases/<str:replica>": {
        "GET": READ,
        "PUT": OPERATE,
        "DELETE": OPERATE,
    },
    "/api/v1/fleets/<str:fleet>/live": {"GET": READ},
    "/api/v1/fleets/<str:fleet>/objectives": {"GET": READ},
    "/api/v1/fleets/<str:fleet>/history": {"GET": READ},
    "/api/v1/fleets/<str:fleet>/scaling": {"GET": READ},
    "/api/v1/drains": {"GET": READ, "POST": OPERATE},
    "/api/v1/live": {"GET": READ},
    "/api/v1/hardware-classes": {"GET": READ, "POST": ADMINISTER_ALL},
    "/api/v1/hardware-classes/<str:name>": {"GET": READ, "PATCH": ADMINISTER_ALL, "DELETE": ADMINISTER_ALL},
    "/api/v1/exporters": {"GET": READ_ALL, "POST": ADMINISTER_ALL},
    "/api/v1/exporters/<str:name>": {"GET": READ_ALL, "PATCH": ADMINISTER_ALL, "DELETE": ADMINISTER_ALL},
    "/api/v1/accelerators": {"GET": READ, "POST": ADMINISTER_ALL},
    "/api/v1/accelerators/<path:accelerator>": {
        "GET": READ,
        "PATCH": ADMINISTER_ALL,
        "DELETE": ADMINISTER_ALL,
    },
    "/api/v1/trial-probes": {"POST": ADMINISTER},
    "/api/v1/client-keys": {"GET": READ_ALL, "POST": ADMINISTER_ALL},
    "/api/v1/client-keys/settings": {"GET": READ, "PATCH": ADMINISTER_ALL},
    "/api/v1/client-keys/live": {"GET": READ_ALL},
    "/api/v1/client-keys/<int:key>/live": {"GET": READ_ALL},
    "/api/v1/client-keys/<int:key>/history": {"GET": READ_ALL},
    "/api/v1/client-keys/<int:key>": {"GET": READ_ALL, "PATCH": ADMINISTER_ALL, "DELETE": ADMINISTER_ALL},
    "/api/v1/tokens": {"GET": READ, "POST": Need(Role.READ, whole_token=True)},
    "/api/v1/tokens/<int:token>": {"DELETE": READ},
    "/api/v1/strategies": {"GET": READ},
    "/api/v1/events": {"GET": READ},
    "/api/v1/alerts": {"GET": READ},
    "/api/v1/alerts/counts": {"GET": READ},
    "/api/v1/alerts/rules": {"GET": READ, "POST": ADMINISTER_ALL},
    "/api/v1/alerts/rules/<str:name>": {"GET": READ, "PATCH": ADMINISTER_ALL, "DELETE": ADMINISTER_ALL},
    "/api/v1/alerts/destinations": {"GET": READ_ALL, "POST": ADMINISTER_ALL},
    "/api/v1/alerts/destinations/<str:name>": {
        "GET": READ_ALL,
        "PATCH": ADMINISTER_ALL,
        "DELETE": ADMINISTER_ALL,
    },
    "/api/v1/alerts/destinations/<str:name>/test": {"POST": OPERATE_ALL},
    "/api/v1/alerts/silences": {"GET": READ, "POST": OPERATE},
    "/api/v1/alerts/silences/<int:silence>": {"GET": READ, "DELETE": OPERATE},
    "/api/v1/audit": {"GET": READ_ALL},
    "/api/v1/system": {"GET": READ_ALL},
    "/api/v1/schema": {"GET": READ},
}
"""By token or by session."""

PAGES: Mapping[str, Methods] = {
    "/livez": {"GET": OPEN},
    "/readyz": {"GET": OPEN},
    "/login": {"GET": OPEN, "POST": OPEN},
    "/logout": {"POST": OPEN},
    "/password": {"GET": READ, "POST": READ},
    "/": {"GET": READ},
    "/fleets/<str:name>": {"GET": READ},
    "/alerts": {"GET": READ},
    "/hardware": {"GET": READ},
    "/events": {"GET": READ},
    "/client-keys": {"GET": READ_ALL},
    "/tokens": {"GET": READ},
    "/system": {"GET": READ_ALL},
    "/api/v1/docs": {"GET": READ},
}
"""By session alone: a token opens no page."""

WEB: Mapping[str, Methods] = {**API, **PAGES}

WEBSOCKETS: Mapping[str, Need] = {
    "ws/overview": READ,
    "ws/client-keys": READ_ALL,
    "ws/fleets/<str:name>": READ,
}
"""By session alone, and from a page of the same host."""

FORMS_POSTED_WITHOUT_JSON = frozenset({"/login", "/logout", "/password"})

ADMIN: Mapping[str, Methods] = {
    "/livez": {"GET": OPEN},
    "/readyz": {"GET": OPEN},
    "/metrics": {"GET": OPEN},
    "/status": {"GET": OPEN},
    "/restart": {"POST": ADMINISTER},
    "/upgrade": {"POST": ADMINISTER},
    "/fleets/{fleet}/replicas/{replica}/drain": {"POST": ADMINISTER},
    "/fleets/{fleet}/replicas/{replica}/undrain": {"POST": ADMINISTER},
}
"""The proxy's admin listener knows no accounts. ``ADMINISTER``: whoever connects from the same machine."""

METRICS: Mapping[str, Methods] = {
    "/livez": {"GET": OPEN},
    "/readyz": {"GET": OPEN},
    "/metrics": {"GET": READ},
}
"""The metrics listener of each process of the control plane. ``READ``: with its token, if it has one; an
address that is not loopback needs one."""

NOT_THERE: tuple[str, ...] = (
    "/admin/",
    "/api/",
    "/api/v1/",
    "/api/v1/fleets/",
    "/api/v1//fleets",
    "/api/v1/fleets/echo/credential",
    "/debug",
    "/metrics",
    "/status",
    "/ws/overview",
    "/.env",
    "/.git/config",
    "/var/secret_key",
    "/static/",
    "/static/../secret_key",
    "/static/%2e%2e/secret_key",
    "/static/..%2fsecret_key",
    "//fleets",
    "/%00",
)
"""What nobody finds on the web port: 4xx, whoever asks."""

PROXY: tuple[str, ...] = (
    "/",
    "/v1/models",
    "/v1/models/echo",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/responses/resp_1",
    "/v1/audio/transcriptions",
    "/tokenize",
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/echo",
    "/v2/models/echo/ready",
    "/v2/models/echo/infer",
    "/v2/repository/index",
    "/fleets/echo/x",
    "/fleets/echo/v1/models",
    "/fleets/echo/v2/health/ready",
    "/fleets/nobodys/x",
    "/health",
    "/livez",
    "/readyz",
    "/metrics",
    "/status",
    "/restart",
    "/upgrade",
    "/fleets/echo/replicas/a/drain",
    "/api/v1/fleets",
    "/login",
    "/..%2fx",
    "/shutdown",
)
"""Where client keys are in use, none of these says a word or reaches a replica without one: 401. The proxy's
own listeners for operators are elsewhere (``ADMIN``)."""
