"""Local replies (Envoy): errors that the proxy itself responds with, instead of a replica."""


class RoutingError(Exception):
    """No replica gets this request; this is the response instead.

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
    """The proxy's own response to a request. With ``is_error`` it counts in the fleet's ``errors``, with
    ``is_answer`` in ``answered`` and the latency. ``closes``: the connection serves no further request.
    ``fields``: further header fields, each preceded by CRLF. ``kind``: OpenAI's name for the error, if it has
    one."""

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
