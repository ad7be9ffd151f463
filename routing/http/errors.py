"""Protocol errors: what can be wrong with the bytes of either side."""


class RequestRefused(Exception):
    """A request that must not be forwarded. Answered with ``status``; then the connection is closed."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        """Short stable word for programs; ``message`` is for people."""
        self.message = message


class BadResponse(Exception):
    """Bytes of a replica that are not one valid HTTP/1.x response."""


class BadChunk(Exception):
    """A chunked body that breaks RFC 9112 §7.1, from either side."""
