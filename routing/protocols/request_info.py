"""Request info: what a request says about itself, as every protocol's reader returns it."""

RequestInfo = tuple[str, bool, float]
"""The model as the client wrote it (empty: none named), whether it asked to have the answer streamed, and
estimated units of work (0: no estimate; below 0: so much, the sign turned, without the answer). A bare tuple,
because one is made for every request."""


class BadRequestBody(Exception):
    """The body cannot be what its protocol says; the text tells the client why."""
