"""Error bodies in the shape that the caller's protocol has for them."""

from routing.protocols import anthropic, generic, open_inference, openai

BARE_PATHS = frozenset(
    (
        *(b"/rerank", b"/v2/rerank", b"/score", b"/classify", b"/pooling", b"/generative_scoring"),
        *(b"/v2/embed", b"/tokenize", b"/detokenize"),
    )
)
"""Of the OpenAI API's servers (vLLM, SGLang, and Jina's and Cohere's clients) outside ``/v1/``: their bodies
hold ``model`` too."""


def error_content(
    protocol: str, status: int, code: str, message: str, request_id: str = "", kind: str = ""
) -> tuple[str, bytes]:
    """Content type and body. ``kind``: OpenAI's word for it."""
    if protocol == "openai":
        return "application/json", openai.error_body(status, code, message, kind)
    if protocol == "anthropic":
        return "application/json", anthropic.error_body(status, code, message, request_id)
    if protocol == "open-inference":
        return "application/json", open_inference.error_body(message)
    return "application/problem+json", generic.error_body(status, code, message)


def protocol_of_path(target: bytes) -> str:
    """The protocol a caller most likely speaks, while no fleet is known."""
    if target.startswith(b"/v1/"):
        return "anthropic" if anthropic.is_path(target) else "openai"
    if target.partition(b"?")[0] in BARE_PATHS:
        return "openai"
    return "open-inference" if target.startswith((b"/v2/", b"/v2?")) or target == b"/v2" else "generic"
