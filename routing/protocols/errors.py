"""Errors in the shape that the caller's protocol has for them."""

from routing.protocols import generic, open_inference, openai


def error_answer(protocol: str, status: int, code: str, message: str) -> tuple[str, bytes]:
    """Content type and body."""
    if protocol == "openai":
        return "application/json", openai.error_body(status, code, message)
    if protocol == "open-inference":
        return "application/json", open_inference.error_body(message)
    return "application/problem+json", generic.error_body(status, code, message)


def protocol_of_path(target: bytes) -> str:
    """The protocol a caller most likely speaks, while no fleet is known."""
    if target.startswith(b"/v1/"):
        return "openai"
    return "open-inference" if target.startswith((b"/v2/", b"/v2?")) or target == b"/v2" else "generic"
