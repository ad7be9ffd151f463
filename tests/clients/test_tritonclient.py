"""The package ``tritonclient``, HTTP: health, metadata, index, inference in binary and in JSON, errors."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException, triton_to_np_dtype

from examples.client.requests import digit_pictures
from tests.clients.conftest import Site

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

READY = [{"name": name, "state": "READY", "reason": ""} for name in ("digits", "numbers")]
NONE = {"name": "letters", "state": "UNAVAILABLE", "reason": "fleet letters has no replicas"}


Key = Callable[[], dict[str, str]]
"""Header fields with a key: new ones for each call, because the client adds its own to them."""


def headers(site: Site, key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {site.keys[key]}"}


@pytest.fixture
def client(site: Site) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(f"127.0.0.1:{site.port}") as client:
        yield client


@pytest.fixture
def key(site: Site) -> Key:
    return lambda: headers(site, "digits")


@pytest.fixture(scope="module")
def pictures() -> NDArray[np.float64]:
    """Of the digits 0 to 9."""
    return np.array(digit_pictures()[:10])


def tensor(pictures: NDArray[Any], binary: bool = True, datatype: str = "FP64") -> triton.InferInput:
    tensor = triton.InferInput("pixels", list(pictures.shape), datatype)
    tensor.set_data_from_numpy(pictures, binary_data=binary)
    return tensor


def is_right(answer: triton.InferResult) -> bool:
    """For pictures of 0 to 9: at most one is taken for another digit."""
    digits = answer.as_numpy("digit")
    return digits.dtype == np.int64 and int((digits == np.arange(10)).sum()) >= 9


def test_the_server_is_live_and_ready(client: triton.InferenceServerClient, site: Site) -> None:
    """The default fleet speaks another protocol, and one V2 fleet is not ready."""
    for key in ("all", "digits"):
        assert client.is_server_live(headers(site, key))
        assert client.is_server_ready(headers(site, key))
    # This key opens no V2 fleet.
    assert client.is_server_live(headers(site, "texts"))
    assert not client.is_server_ready(headers(site, "texts"))
    assert not client.is_server_live()
    assert not client.is_server_ready()


def test_models_are_ready(client: triton.InferenceServerClient, site: Site) -> None:
    assert client.is_model_ready("digits", headers=headers(site, "digits"))
    assert client.is_model_ready("numbers", headers=headers(site, "digits"))
    assert not client.is_model_ready("letters", headers=headers(site, "all"))
    assert not client.is_model_ready("nobody", headers=headers(site, "all"))
    assert not client.is_model_ready("digits", headers=headers(site, "texts"))


def test_metadata(client: triton.InferenceServerClient, key: Key) -> None:
    assert client.get_server_metadata(key())["name"] == "switchyard"
    model = client.get_model_metadata("numbers", headers=key())
    assert model["inputs"] == [{"name": "pixels", "datatype": "FP64", "shape": [-1, 64]}]


def test_the_index(client: triton.InferenceServerClient, site: Site) -> None:
    """Of the models that the key opens."""
    seen = {name: client.get_model_repository_index(headers(site, name)) for name in site.keys}
    assert seen == {"digits": READY, "texts": [], "all": sorted([*READY, NONE], key=lambda one: one["name"])}


@pytest.mark.parametrize("datatype", ["FP64", "FP32", "UINT8"])
def test_inference_with_binary_tensors(
    client: triton.InferenceServerClient, key: Key, pictures: NDArray[Any], datatype: str
) -> None:
    """Both ways, which is the client's default."""
    inputs = [tensor(pictures.astype(triton_to_np_dtype(datatype)), datatype=datatype)]
    answer = client.infer("digits", inputs, headers=key(), request_id="q1")
    assert is_right(answer)
    assert answer.get_response()["id"] == "q1"
    assert answer.get_output("digit")["parameters"] == {"binary_data_size": 80}


def test_inference_in_json(client: triton.InferenceServerClient, key: Key, pictures: NDArray[Any]) -> None:
    outputs = [triton.InferRequestedOutput("digit", binary_data=False)]
    answer = client.infer("numbers", [tensor(pictures, binary=False)], outputs=outputs, headers=key())
    assert is_right(answer)
    assert len(answer.get_output("digit")["data"]) == 10


def test_one_way_binary(client: triton.InferenceServerClient, key: Key, pictures: NDArray[Any]) -> None:
    for binary in (True, False):
        outputs = [triton.InferRequestedOutput("digit", binary_data=not binary)]
        assert is_right(client.infer("digits", [tensor(pictures, binary)], outputs=outputs, headers=key()))


def test_a_compressed_request_is_the_replica_s(
    client: triton.InferenceServerClient, key: Key, pictures: NDArray[Any]
) -> None:
    """It is forwarded as it is, and this replica says what it makes of it."""
    with pytest.raises(InferenceServerException, match="not an inference request"):
        client.infer("digits", [tensor(pictures)], headers=key(), request_compression_algorithm="gzip")


def test_inference_beside_others(site: Site, key: Key, pictures: NDArray[Any]) -> None:
    with triton.InferenceServerClient(f"127.0.0.1:{site.port}", concurrency=4) as client:
        asked = [client.async_infer("digits", [tensor(pictures)], headers=key()) for _ in range(8)]
        assert all(is_right(one.get_result()) for one in asked)


def test_one_fleet_by_its_path(site: Site, key: Key, pictures: NDArray[Any]) -> None:
    with triton.InferenceServerClient(f"127.0.0.1:{site.port}/fleets/digits") as client:
        assert client.is_server_live(key())
        assert client.is_server_ready(key())
        assert client.get_server_metadata(key())["extensions"] == ["binary_tensor_data"]
        assert [model["name"] for model in client.get_model_repository_index(key())] == ["digits"]
        assert is_right(client.infer("digits", [tensor(pictures)], headers=key()))
    with triton.InferenceServerClient(f"127.0.0.1:{site.port}/fleets/letters") as client:
        assert client.is_server_live(headers(site, "all"))
        assert not client.is_server_ready(headers(site, "all"))
        assert not client.is_server_ready(key())


ERRORS = [
    ("digits", "texts", "403", "this client key may not use fleet 'digits'"),
    ("nobody", "digits", "404", "there is no fleet or alias named 'nobody' here; known: digits, numbers"),
    ("letters", "all", "503", "fleet letters has no replicas"),
]


@pytest.mark.parametrize(("model", "key", "status", "words"), ERRORS)
def test_errors_have_the_protocol_s_form(
    client: triton.InferenceServerClient,
    site: Site,
    pictures: NDArray[Any],
    model: str,
    key: str,
    status: str,
    words: str,
) -> None:
    """Which the client reads: it would say so otherwise."""
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, [tensor(pictures)], headers=headers(site, key))
    assert caught.value.status() == status
    assert words in caught.value.message()


def test_a_wrong_key(client: triton.InferenceServerClient) -> None:
    wrong = {"Authorization": f"Bearer sy-{'x' * 48}"}
    for ask in (client.get_server_metadata, client.get_model_repository_index):
        with pytest.raises(InferenceServerException, match="the client key is unknown") as caught:
            ask(wrong)
        assert caught.value.status() == "401"


def test_a_request_that_the_replica_refuses(
    client: triton.InferenceServerClient, key: Key, pictures: NDArray[Any]
) -> None:
    with pytest.raises(InferenceServerException, match="shape must be") as caught:
        client.infer("digits", [tensor(pictures[:, :63].copy())], headers=key())
    assert caught.value.status() == "400"


def test_models_are_neither_loaded_nor_unloaded(client: triton.InferenceServerClient, key: Key) -> None:
    for ask in (client.load_model, client.unload_model):
        with pytest.raises(InferenceServerException) as caught:
            ask("digits", headers=key())
        assert caught.value.status() in ("403", "404")


async def test_the_asynchronous_client(site: Site, key: Key, pictures: NDArray[Any]) -> None:
    async with triton_aio.InferenceServerClient(f"127.0.0.1:{site.port}") as client:
        assert await client.is_server_live(key())
        assert await client.is_server_ready(key())
        assert await client.is_model_ready("digits", headers=key())
        assert await client.get_model_repository_index(key()) == READY
        for binary in (True, False):
            assert is_right(await client.infer("digits", [tensor(pictures, binary)], headers=key()))
        with pytest.raises(InferenceServerException, match="there is no fleet or alias"):
            await client.infer("nobody", [tensor(pictures)], headers=key())
