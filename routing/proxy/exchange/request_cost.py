"""Request cost: the estimated work of a request whose fleet is known without its body."""

from routing.http.request_head import RequestHead
from routing.protocols import open_inference, openai, openai_body
from routing.protocols.request_info import BadRequestBody, RequestInfo


def request_info_of(protocol: str, head: RequestHead, body: bytes, complete: bool) -> RequestInfo:
    """Read from the body if it is complete, else estimated from its length. The body is never waited for."""
    size = len(body) if complete else head.content_length
    if protocol == "generic" or not size:
        return ("", False, float(size))
    if protocol == "open-inference":
        return open_inference.read(head.target, head.fields, body, size)
    if not complete:
        return ("", False, openai_body.work_by_size(head.fields, size))
    try:
        if body[:1] == b"{":
            return openai.read(head.target, body)
        return openai_body.read(head.target, head.fields, body)
    except BadRequestBody:
        return ("", False, 0.0)
