"""What is decoded of the first events of a stream. Structs are not compiled, so they stand by themselves."""

import msgspec


class StartingChoice(msgspec.Struct):
    """What a chunk of a stream says in one choice."""

    delta: dict[str, msgspec.Raw] | None = None
    text: msgspec.Raw = msgspec.Raw()
    finish_reason: msgspec.Raw = msgspec.Raw()


class StartingChunk(msgspec.Struct):
    """An event of chat or completions."""

    choices: list[StartingChoice] | None = None
    error: msgspec.Raw = msgspec.Raw()


class TypedEvent(msgspec.Struct):
    """An event of any other call: its type tells what it is."""

    type: str = ""


class StreamErrorWords(msgspec.Struct):
    """An error, as far as it is read."""

    type: object = None
    code: object = None


class ErrorEvent(msgspec.Struct):
    """An event that holds an error."""

    error: StreamErrorWords
