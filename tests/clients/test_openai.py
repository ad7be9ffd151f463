"""The package ``openai``: completions, chat, streams, embeddings, the model list, errors."""

import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.clients.conftest import Site

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "bala kiru"}]


@pytest.fixture
def client(site: Site) -> OpenAI:
    return OpenAI(base_url=f"{site.url}/v1", api_key=site.keys["texts"], max_retries=0)


def test_chat(client: OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=8)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8
    assert answer.choices[0].message.content
    # By an alias, and with the name in the path.
    assert client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=2).choices


def test_the_replica_and_the_request_are_named(client: OpenAI) -> None:
    answer = client.chat.completions.with_raw_response.create(
        model="tiny-llm", messages=MESSAGES, max_tokens=2
    )
    assert answer.headers["x-switchyard-replica"] == "quick"
    assert answer.parse()._request_id == answer.headers["x-request-id"]


def test_one_fleet_by_its_path(site: Site) -> None:
    client = OpenAI(base_url=f"{site.url}/fleets/tiny-llm/v1", api_key=site.keys["texts"])
    assert client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=2).choices


def test_completions(client: OpenAI) -> None:
    answer = client.completions.create(model="tiny-llm", prompt="bala kiru", max_tokens=5)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5


def test_streams(client: OpenAI) -> None:
    stream = client.chat.completions.create(
        model="tiny-llm",
        messages=MESSAGES,
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert len([text for text in texts if text]) >= 7
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8
    pieces = list(client.completions.create(model="chat", prompt="bala", max_tokens=4, stream=True))
    assert len(pieces) >= 4


def test_a_stream_that_is_left_leaves_the_client_usable(client: OpenAI) -> None:
    stream = client.chat.completions.create(model="tiny-llm", messages=MESSAGES, max_tokens=500, stream=True)
    next(iter(stream))
    stream.close()
    assert client.completions.create(model="tiny-llm", prompt="bala", max_tokens=2).choices


def test_responses(client: OpenAI) -> None:
    answer = client.responses.create(model="tiny-llm", input="bala kiru", max_output_tokens=16)
    assert answer.usage is not None
    assert answer.usage.output_tokens <= 16
    assert answer.output_text


def test_embeddings(client: OpenAI) -> None:
    """Base64 is what the client asks for by default."""
    answer = client.embeddings.create(model="tiny-llm", input=["bala", "kiru"])
    assert [len(one.embedding) for one in answer.data] == [192, 192]
    floats = client.embeddings.create(model="tiny-llm", input="bala", encoding_format="float")
    assert floats.data[0].embedding == pytest.approx(answer.data[0].embedding, abs=1e-5)


def test_models(client: OpenAI, site: Site) -> None:
    """Those that the key opens."""
    assert [model.id for model in client.models.list()] == ["chat", "closed", "tiny-llm"]
    assert client.models.retrieve("chat").id == "chat"
    digits = client.with_options(api_key=site.keys["digits"])
    assert list(digits.models.list()) == []
    with pytest.raises(openai.NotFoundError):
        digits.models.retrieve("chat")


def test_a_wrong_key(client: OpenAI) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        client.with_options(api_key="sy-" + "x" * 48).models.list()
    assert caught.value.code == "client_key_unknown"
    assert "the client key is unknown" in caught.value.message


def test_a_key_for_other_fleets(client: OpenAI, site: Site) -> None:
    digits = client.with_options(api_key=site.keys["digits"])
    with pytest.raises(openai.PermissionDeniedError) as caught:
        digits.completions.create(model="tiny-llm", prompt="bala")
    assert caught.value.code == "client_key_not_for_fleet"


def test_an_unknown_model(client: OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.completions.create(model="nobody", prompt="bala")
    assert (caught.value.code, caught.value.type) == ("model_not_found", "invalid_request_error")
    assert "known: chat, closed, tiny-llm" in caught.value.message


def test_a_fleet_without_a_replica(client: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="closed", messages=MESSAGES, stream=True)
    assert (caught.value.status_code, caught.value.code) == (503, "no_replica")


def test_a_path_that_is_not_open(client: OpenAI) -> None:
    with pytest.raises(openai.PermissionDeniedError) as caught:
        client.post("/load_lora_adapter", cast_to=object, body={"model": "tiny-llm"})
    assert caught.value.code == "path_not_exposed"


async def test_the_asynchronous_client(site: Site) -> None:
    async with AsyncOpenAI(base_url=f"{site.url}/v1", api_key=site.keys["all"], max_retries=0) as client:
        assert "tiny-llm" in [model.id async for model in client.models.list()]
        stream = await client.chat.completions.create(
            model="tiny-llm", messages=MESSAGES, max_tokens=4, stream=True
        )
        assert len([chunk async for chunk in stream]) >= 4
        answer = await client.embeddings.create(model="tiny-llm", input="bala")
        assert len(answer.data[0].embedding) == 192
        with pytest.raises(openai.NotFoundError):
            await client.completions.create(model="nobody", prompt="bala")
