"""The package ``anthropic``: messages, streams, counting tokens, the model list, errors."""

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic

from tests.clients.conftest import Site

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

MESSAGES: list[anthropic.types.MessageParam] = [{"role": "user", "content": "bala kiru"}]


@pytest.fixture
def client(site: Site) -> Anthropic:
    return Anthropic(base_url=site.url, api_key=site.keys["texts"], max_retries=0)


def test_messages(client: Anthropic) -> None:
    answer = client.messages.create(model="tiny-llm", messages=MESSAGES, max_tokens=6)
    assert (answer.type, answer.role, answer.stop_reason) == ("message", "assistant", "max_tokens")
    assert answer.usage.output_tokens == 6
    assert answer.content[0].type == "text"
    assert answer.content[0].text


def test_a_stream(client: Anthropic) -> None:
    with client.messages.stream(model="chat", messages=MESSAGES, max_tokens=8) as stream:
        texts = list(stream.text_stream)
        message = stream.get_final_message()
    assert len(texts) >= 7
    assert "".join(texts) == message.content[0].text  # type: ignore[union-attr]
    assert message.usage.output_tokens == 8


def test_the_events_of_a_stream(client: Anthropic) -> None:
    events = client.messages.create(model="tiny-llm", messages=MESSAGES, max_tokens=3, stream=True)
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[2:-3]) == {"content_block_delta"}


def test_tokens_are_counted(client: Anthropic) -> None:
    assert client.messages.count_tokens(model="tiny-llm", messages=MESSAGES).input_tokens > 2


def test_models(client: Anthropic, site: Site) -> None:
    assert [model.id for model in client.models.list()] == ["chat", "closed", "tiny-llm"]
    assert client.models.retrieve("tiny-llm").id == "tiny-llm"
    assert not list(client.with_options(api_key=site.keys["digits"]).models.list())


def error_of(caught: pytest.ExceptionInfo[anthropic.APIStatusError]) -> dict[str, object]:
    body = caught.value.body
    assert isinstance(body, dict)
    assert body["type"] == "error"
    assert body["request_id"] == caught.value.request_id
    error: dict[str, object] = body["error"]
    return error


def test_a_wrong_key(client: Anthropic) -> None:
    with pytest.raises(anthropic.AuthenticationError) as caught:
        client.with_options(api_key="sy-" + "x" * 48).messages.create(
            model="tiny-llm", messages=MESSAGES, max_tokens=1
        )
    assert error_of(caught)["type"] == "authentication_error"


def test_a_key_for_other_fleets(client: Anthropic, site: Site) -> None:
    digits = client.with_options(api_key=site.keys["digits"])
    with pytest.raises(anthropic.PermissionDeniedError) as caught:
        digits.messages.create(model="tiny-llm", messages=MESSAGES, max_tokens=1)
    assert error_of(caught)["type"] == "permission_error"


def test_an_unknown_model(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        client.messages.create(model="nobody", messages=MESSAGES, max_tokens=1)
    assert error_of(caught)["type"] == "not_found_error"
    assert "there is no fleet or alias named 'nobody' here" in str(error_of(caught)["message"])


def test_a_fleet_without_a_replica(client: Anthropic) -> None:
    with pytest.raises(anthropic.InternalServerError) as caught:
        client.messages.create(model="closed", messages=MESSAGES, max_tokens=1)
    assert caught.value.status_code == 503
    assert error_of(caught)["details"] == {"error_code": "no_replica"}


async def test_the_asynchronous_client(site: Site) -> None:
    async with AsyncAnthropic(base_url=site.url, api_key=site.keys["all"], max_retries=0) as client:
        answer = await client.messages.create(model="tiny-llm", messages=MESSAGES, max_tokens=2)
        assert answer.usage.output_tokens == 2
        async with client.messages.stream(model="tiny-llm", messages=MESSAGES, max_tokens=4) as stream:
            assert len([text async for text in stream.text_stream]) >= 3
        with pytest.raises(anthropic.NotFoundError):
            await client.messages.create(model="nobody", messages=MESSAGES, max_tokens=1)
