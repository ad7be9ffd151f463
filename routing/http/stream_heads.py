"""Stream heads: response heads of chunked bodies that were read before, known by their bytes.

Theory. Each stream has a head, and a connection may carry one in a minute, so unlike those of whole answers
(:mod:`routing.http.response_template`) these are kept for all connections of the worker: within one second
the streams of a server begin alike. Nothing changes such a head but the date of one that has none.
"""

from routing.http.response_head import ResponseHead

_LONGEST = 4096
_MOST = 64
_known: dict[bytes, ResponseHead] = {}


def known_head(text: bytes) -> ResponseHead | None:
    """What was read of these bytes before, if it is kept; dated now, where it has no date."""
    head = _known.get(text)
    if head is not None and head.undated:
        head.date()
    return head


def keep(text: bytes, head: ResponseHead) -> None:
    """``text``: the whole head, its empty line included. Only that of a final response whose body is chunked
    is kept, and none that tells of the replica's load."""
    if head.chunked and not head.load and head.status >= 200 and len(text) <= _LONGEST:
        if len(_known) >= _MOST:
            _known.clear()
        _known[text] = head
