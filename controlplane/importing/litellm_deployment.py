"""One entry of LiteLLM's ``model_list``: a replica of its model's fleet."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.importing.model import Draft, Fields, SourcedValue, SourceLocation
from routing.contract.secret_references import credential_reference

At = Callable[[str], SourceLocation]
"""Where a JSON pointer leads."""

_SELF_HOSTED = {
    *("openai", "hosted_vllm", "vllm", "custom_openai", "text-completion-openai", "openai_like"),
    *("huggingface", "lm_studio", "llamafile", "litellm_proxy", "nvidia_nim", "infinity", "xinference"),
    *("ollama", "ollama_chat", "docker_model_runner", "sglang"),
}
"""Providers that can be a server of one's own with the OpenAI API."""
_OWN_PROTOCOL = frozenset({"ollama", "ollama_chat", "huggingface", "infinity"})
"""LiteLLM speaks to these in another protocol of theirs."""

_OTHER_PROTOCOL = {
    *("aleph_alpha", "anthropic", "anthropic_text", "azure", "azure_text", "bedrock", "bedrock_converse"),
    *("clarifai", "cloudflare", "cohere", "cohere_chat", "custom", "gemini", "nlp_cloud", "oobabooga"),
    *("palm", "petals", "predibase", "replicate", "sagemaker", "sagemaker_chat", "snowflake", "triton"),
    *("vertex_ai", "watsonx", "watsonx_text"),
}
"""LiteLLM translates for these: what stands behind api_base does not speak the OpenAI protocol."""

VERIFIED = (
    "certificates are always verified; for a CA of your own set the fleet's tls.ca (docs/fleet-file.md)"
)

_MOST_WEIGHT = 1000.0
_LIMITS = "there are no rate limits but those of client keys"
_REASONS = {
    "rpm": _LIMITS,
    "tpm": _LIMITS,
    "max_retries": "retries are bounded by a budget (policy.retries)",
    "order": "there are no standby replicas; all ready replicas share the requests",
    "input_cost_per_token": "costs are not counted",
    "output_cost_per_token": "costs are not counted",
    "tags": "requests are not routed by tags",
    "organization": "request headers are forwarded unchanged",
    "extra_headers": "request headers are forwarded unchanged",
    "ssl_verify": VERIFIED,
    "drop_params": "bodies are forwarded unchanged",
    "additional_drop_params": "bodies are forwarded unchanged",
    "temperature": "bodies are forwarded unchanged; no parameter is added",
    "max_tokens": "bodies are forwarded unchanged; no parameter is added",
}
_KEY = (
    "tokens are not stored in this file: put it into a variable or a file where proxies and probes run, and "
    "set the replica's credential to env:NAME or file:/whole/path"
)


@dataclass
class Deployment:
    """One replica, before it has a name."""

    model_name: str
    served_model: str
    url: str
    place: SourceLocation
    address: SourceLocation
    wanted_name: str
    name: str = ""
    """Given when it is in a fleet."""
    fields: Fields = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    """``weight``, ``rpm`` and ``tpm`` where given: what LiteLLM's shuffle draws by."""
    timeout: tuple[SourceLocation, Any] | None = None
    stream_timeout: tuple[SourceLocation, Any] | None = None

    def replica(self) -> Fields:
        return {"name": self.name, "url": SourcedValue(self.url, f"api_base, {self.address}"), **self.fields}


def read(entry: Any, pointer: str, at: At, draft: Draft) -> Deployment | None:
    """One entry; None after saying why it cannot be a replica."""
    place = at(pointer)
    if not isinstance(entry, Mapping) or not isinstance(entry.get("litellm_params"), Mapping):
        draft.note_dropped(place, pointer.strip("/"), "it has no litellm_params")
        return None
    model_name, parameters = entry.get("model_name"), entry["litellm_params"]
    model = parameters.get("model")
    if not isinstance(model_name, str) or not isinstance(model, str):
        draft.note_dropped(place, pointer.strip("/"), "it needs model_name and litellm_params.model as text")
        return None
    what = f"{model_name} on {model}"
    if "*" in model_name or "*" in model:
        draft.note_dropped(place, what, "a fleet serves one model: write one fleet for each model")
        return None
    provider, served, known = _provider(model, parameters.get("custom_llm_provider"))
    base = parameters.get("api_base", parameters.get("base_url"))
    if not isinstance(base, str):
        draft.note_dropped(
            place, what, f"no api_base: {provider or model} is a service, not a replica of yours"
        )
        return None
    if base.startswith("os.environ/"):
        draft.note_dropped(
            place, what, f"api_base is in the environment ({base}): write the address in the file"
        )
        return None
    if provider in _OTHER_PROTOCOL:
        draft.note_dropped(place, what, _TRITON if provider == "triton" else _TRANSLATED)
        return None
    url = draft.url(place, what, base.rstrip("/").removesuffix("/v1"))
    if url is None:
        return None
    _tell_path(base, place, what, provider, draft)
    if not known:
        draft.note_changed(
            place, what, f"it gets OpenAI API requests for the model {served}, exactly as written"
        )
    info = entry.get("model_info")
    wanted = info.get("id") if isinstance(info, Mapping) else None
    one = Deployment(
        model_name,
        served,
        url,
        place,
        at(f"{pointer}/litellm_params/{'api_base' if 'api_base' in parameters else 'base_url'}"),
        wanted if isinstance(wanted, str) else url.partition("://")[2].replace(":", "-"),
    )
    _parameters(one, parameters, f"{pointer}/litellm_params", at, draft)
    for key in entry:
        if key not in ("model_name", "litellm_params", "model_info"):
            draft.note_dropped(at(f"{pointer}/{key}"), f"{model_name}: {key}", "Switchyard has no equivalent")
    for key in info if isinstance(info, Mapping) else ():
        if key != "id":
            draft.note_dropped(
                at(f"{pointer}/model_info/{key}"), f"{model_name}: {key}", "models are not described"
            )
    return one


def _provider(model: str, given: Any) -> tuple[str, str, bool]:
    """Provider (empty when none is named), the model's name at the server, and whether both are certain."""
    before, slash, rest = model.partition("/")
    if isinstance(given, str):
        return given, rest if slash and before == given else model, True
    if slash and before in _SELF_HOSTED:
        return before, rest, True
    return (before, model, False) if slash else ("", model, True)


_TRANSLATED = "LiteLLM translates for its server, which does not speak the OpenAI protocol"
_TRITON = (
    f"{_TRANSLATED}: register it by hand, in a fleet of protocol open-inference (docs/servers/triton.md)"
)


def _tell_path(base: str, place: SourceLocation, what: str, provider: str, draft: Draft) -> None:
    """LiteLLM calls ``api_base`` + ``/chat/completions``, Switchyard the URL + ``/v1/chat/completions``."""
    if base.rstrip("/").endswith("/v1"):
        return
    if provider in _OWN_PROTOCOL:
        draft.note_changed(place, what, "it gets OpenAI API requests, under /v1")
    else:
        draft.note_changed(place, what, "api_base does not end in /v1, but requests now go to /v1")


def _parameters(one: Deployment, parameters: Mapping[str, Any], pointer: str, at: At, draft: Draft) -> None:
    for key, value in parameters.items():
        place = at(f"{pointer}/{key}")
        if key in ("weight", "rpm", "tpm"):
            _share(one, key, value, place, draft)
        elif key == "max_parallel_requests" and _whole(value) and 1 <= value <= 1_000_000:
            one.fields["max_concurrency"] = SourcedValue(value, f"max_parallel_requests, {place}")
            why = "requests above max_concurrency wait in the fleet's queue"
            draft.note_changed(place, f"{one.model_name}: {key} {value}", why)
        elif key == "timeout":
            one.timeout = (place, value)
        elif key == "stream_timeout":
            one.stream_timeout = (place, value)
        elif key in ("api_key", "api_token"):
            _credential(one, key, value, place, draft)
        elif key not in ("model", "api_base", "base_url", "custom_llm_provider"):
            draft.note_dropped(
                place, f"{one.model_name}: {key}", _REASONS.get(key, "Switchyard has no equivalent")
            )


def _credential(one: Deployment, key: str, value: Any, place: SourceLocation, draft: Draft) -> None:
    """A secret's source may be shown, its value never."""
    name = value.removeprefix("os.environ/") if isinstance(value, str) else ""
    if not name or name == value:
        draft.note_dropped(place, f"{one.model_name}: {key}", _KEY)
        return
    try:
        reference = credential_reference(f"env:{name}")
    except ValueError as error:
        draft.note_dropped(place, f"{one.model_name}: {key} {value}", str(error))
        return
    one.fields["credential"] = SourcedValue(reference, f"{key}, {place}")


def _share(one: Deployment, key: str, value: Any, place: SourceLocation, draft: Draft) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and value > 0:
        one.shares[key] = float(value)
    if key == "weight" and number and 0 <= value <= _MOST_WEIGHT:
        one.fields["weight"] = SourcedValue(value, f"weight, {place}")
    else:
        draft.note_dropped(
            place, f"{one.model_name}: {key} {value}", _REASONS.get(key, "it must be from 0 to 1000")
        )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
