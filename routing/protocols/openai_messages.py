"""Messages of the OpenAI API, as msgspec reads and writes them. Apart from the code that uses them, which may
be compiled: msgspec reads annotations, and a compiled class has lost most of them."""

import msgspec


class OpenAiRequest(msgspec.Struct):
    """The members that matter here; all others are skipped without being built."""

    model: str = ""
    stream: bool | None = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    max_output_tokens: int | None = None
    n: int | None = None


class ModelOnly(msgspec.Struct):
    """For bodies whose other members have unexpected types: the replica is to say so, not we."""

    model: str = ""


class ModelObject(msgspec.Struct):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "switchyard"
