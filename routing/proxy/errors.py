"""Errors that the proxy answers itself: a local reply instead of a replica's response."""


class RoutingError(Exception):
    """No replica is asked for this request; this is the response instead.

    ``lists_fleets``: the message is followed by the names that the caller may use. ``closes``: the connection
    serves no further request.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        retry_after_s: float = 0.0,
        *,
        lists_fleets: bool = False,
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.closes = closes
        self.lists_fleets = lists_fleets
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s


class LocalReply:
    """The response to the client when no attempt is left. With ``is_error`` it counts as an error of the
    fleet, with ``is_answer`` as a response. ``closes``: the connection serves no further request. ``fields``:
    further header fields, each preceded by CRLF. ``kind``: OpenAI's name for the error, if it has one."""

    __slots__ = (
        "closes",
        "code",
        "fields",
        "is_answer",
        "is_error",
        "kind",
        "message",
        "retry_after_s",
        "status",
    )

    def __init__(self, status: int, code: str, message: str, retry_after_s: float = 0.0) -> None:
        self.is_error = status >= 500
        self.is_answer = True
        self.closes = False
        self.fields = b""
        self.kind = ""
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_s = retry_after_s
