"""Table size: how many replicas all fleets together may have. More are refused before they are published.

A list that could never fit is refused before it is read, for reading it is what takes long; and whatever a
write was made of, its sum is looked at before it commits. Who is beyond already (the setting was lowered) can
change and remove what is there.
"""

from django.conf import settings

from controlplane.models import Replica
from controlplane.services.errors import Conflict, FieldError, Invalid

_HOW = "divide them between several installations, or raise SWITCHYARD_MAX_REPLICAS (docs/settings.md)"


def refuse_long(replicas: object, at: str = "/replicas") -> None:
    """``replicas``: as they were sent. Raises Invalid."""
    most = settings.MAX_REPLICAS
    if isinstance(replicas, list) and len(replicas) > most:
        detail = f"{len(replicas)} replicas: all fleets together may have {most}; {_HOW}"
        raise Invalid([FieldError(at, detail)])


def refuse_beyond(added: int = 0, at: str = "") -> None:
    """``added``: how many are to be written beside those that are there. Raises Conflict."""
    most = settings.MAX_REPLICAS
    number = Replica.objects.count() + added
    if number > most:
        words = f"The table would have {number} replicas; all fleets together may have {most}: {_HOW}."
        raise Conflict(words, [FieldError(at, words)] if at else [])
