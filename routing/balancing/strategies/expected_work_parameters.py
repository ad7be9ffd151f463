"""Parameters of :mod:`routing.balancing.strategies.least_expected_work`. Apart, as that may be compiled:
msgspec reads annotations, and a compiled class has lost most of them."""

from typing import Annotated

import msgspec


class LeastExpectedWorkParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kappa: Annotated[
        float,
        msgspec.Meta(
            ge=0.0,
            le=20.0,
            description="How much more a second of waiting in a queue counts than a second of processing, "
            "for replicas with max_concurrency.",
        ),
    ] = 3.0
