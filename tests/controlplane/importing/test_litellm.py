"""``switchyard import litellm``: what a proxy's configuration says, read back from the file made of it."""

import pytest

from tests.controlplane.importing.conftest import SAMPLES

SAMPLE = SAMPLES / "litellm.yaml"

ONE = """
model_list:
  - model_name: tiny
    litellm_params: {{model: openai/tiny, api_base: "http://10.0.0.1:8000/v1"{}}}
"""


def test_a_whole_configuration(run):
    result = run("litellm", SAMPLE)
    assert result.status == 0
    assert list(result.fleets) == ["llama-3-8b-2", "llama-3-8b", "embed"]

    large = result.fleets["llama-3-8b-2"]
    assert (large.protocol, large.aliases) == ("openai", ["Llama-3-8B", "chat"])
    assert large.served_model == "meta-llama/Llama-3.1-8B-Instruct"
    assert large.policy.strategy == "random"
    assert (large.policy.timeouts.total_s, large.policy.timeouts.first_byte_s) == (300, 30)
    assert (large.policy.ejection.consecutive_failures, large.policy.ejection.base_s) == (4, 30)
    assert [(one.name, one.url, one.weight, one.max_concurrency) for one in large.replicas] == [
        ("vllm-east", "http://10.0.0.1:8000", 3.0, 64),
        ("10.0.0.2-8000", "http://10.0.0.2:8000", 1.0, None),
    ]

    small, embed = result.fleets["llama-3-8b"], result.fleets["embed"]
    assert (small.aliases, small.served_model) == (["tiny"], "tiny")
    assert small.replicas[0].url == "http://localhost:9000"
    assert embed.policy.timeouts.total_s == 600
    assert embed.replicas[0].weight == 3.0


def test_comments_say_where_a_value_came_from(run):
    out = run("litellm", SAMPLE).out
    assert 'url: "http://10.0.0.1:8000"  # api_base, line 5' in out
    assert 'credential: "env:VLLM_KEY"  # api_key, line 6' in out
    assert out.count("credential:") == 1
    assert "strategy: random  # routing_strategy simple-shuffle, line 48" in out


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (17, "Llama-3-8B: api_key: tokens are not stored in this file"),
        (7, "rpm 600: there are no rate limits but those of client keys"),
        (20, "Llama-3-8B on another/model: replicas of a fleet serve one model"),
        (34, "embed: mode: models are not described"),
        (35, "gpt-4o on azure/gpt-4o: LiteLLM translates for its server"),
        (40, "claude on anthropic/claude: no api_base: anthropic is a service"),
        (43, "* on openai/*: a fleet serves one model"),
        (52, "redis_host: not needed"),
        (53, "alias gone: the model that it stands for is not carried over"),
        (57, "drop_params: bodies are forwarded unchanged"),
        (58, "fallbacks Llama-3-8B to gpt-4o: gpt-4o is not carried over"),
        (61, "master_key: client keys are created in the control plane"),
        (63, "environment_variables: Switchyard has no equivalent"),
        (49, "num_retries 2: retries are a share of all requests"),
        (28, "embed on ollama/nomic-embed-text: it gets OpenAI API requests"),
    ],
)
def test_what_is_not_carried_over_or_differs_is_listed_with_its_line(run, line, what):
    assert run("litellm", SAMPLE).note(what).startswith(f"{SAMPLE} line {line}: ")


def test_secrets_are_never_shown(run):
    result = run("litellm", SAMPLE)
    assert "secret" not in result.out + result.told


def test_secrets_in_an_address_are_not_shown(litellm):
    for address in ("http://me:s3cret@10.0.0.1/v1", "me:s3cret@10.0.0.1/v1", "http://10.0.0.1/v1?key=s3cret"):
        result = litellm(ONE.format("").replace("http://10.0.0.1:8000/v1", address))
        assert result.status == 1
        assert "tiny on openai/tiny: " in result.told
        assert "s3cret" not in result.told


def test_a_server_over_tls(litellm):
    said = ONE.format(", ssl_verify: false").replace("http://10.0.0.1:8000/v1", "https://models.test/v1")
    result = litellm(said)
    (replica,) = result.fleets["tiny"].replicas
    assert (replica.name, replica.url) == ("models.test-443", "https://models.test:443")
    assert "certificates are always verified" in result.note("tiny: ssl_verify")


def test_a_server_that_litellm_translates_for_is_no_fleet(litellm):
    other = ONE.format("").replace("openai/tiny", "triton/tiny").replace("/v1", "/triton/embeddings")
    result = litellm(ONE.format("") + other.replace("model_list:\n", "").replace("tiny", "other"))
    assert list(result.fleets) == ["tiny"]
    assert "in a fleet of protocol open-inference" in result.note("other on triton/other")


@pytest.mark.parametrize(
    ("model", "served", "told"),
    [
        ("meta/llama", "meta/llama", True),
        ("llama", "llama", False),
        ("openai/meta/llama, custom_llm_provider: openai", "meta/llama", False),
        ("meta/llama, custom_llm_provider: hosted_vllm", "meta/llama", False),
    ],
)
def test_the_model_that_the_server_is_asked_for(litellm, model, served, told):
    result = litellm(ONE.format("").replace("openai/tiny", model))
    assert result.fleets["tiny"].served_model == served
    assert ("it gets OpenAI API requests for the model" in result.told) == told


TWO = (
    ONE
    + """  - model_name: tiny
    litellm_params: {{model: openai/tiny, api_base: "http://10.0.0.2:8000/v1"{}}}
"""
)


@pytest.mark.parametrize(
    ("entries", "settings", "total_s", "lost"),
    [
        (("", ""), "router_settings: {timeout: 30}", 30, {"request_timeout 60": "router_settings.timeout"}),
        ((", timeout: 9", ", timeout: 9"), "", 9, {"request_timeout 60": "the entries of model_list"}),
        ((", timeout: 9", ""), "", 60, {}),
    ],
)
def test_no_time_limit_vanishes(litellm, entries, settings, total_s, lost):
    result = litellm(TWO.format(*entries) + "litellm_settings: {request_timeout: 60}\n" + settings)
    assert result.fleets["tiny"].policy.timeouts.total_s == total_s
    assert ("Not carried over" in result.told) == bool(lost)
    for what, why in lost.items():
        assert f"every fleet gets another value from {why}" in result.note(what)


def test_of_a_key_in_two_sections_the_routers_holds(litellm):
    settings = "litellm_settings: {num_retries: 3}\nrouter_settings: {num_retries: 0}\n"
    result = litellm(ONE.format("") + settings)
    assert result.fleets["tiny"].policy.retries.budget_percent == 0
    assert "router_settings has num_retries too" in result.note("num_retries 3")


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("simple-shuffle", "random"),
        ("least-busy", "least_connections"),
        ("latency-based-routing", "least_response_time"),
        ("usage-based-routing-v2", "least_expected_work"),
        ("cost-based-routing", "least_expected_work"),
    ],
)
def test_routing_strategies(litellm, name, strategy):
    result = litellm(ONE.format("") + f"router_settings: {{routing_strategy: {name}}}\n")
    assert result.fleets["tiny"].policy.strategy == strategy
    assert ("Switchyard has no equivalent; fleets get the default" in result.told) == (
        strategy == "least_expected_work"
    )


def test_num_retries_0_means_none(litellm):
    result = litellm(ONE.format("") + "litellm_settings: {num_retries: 0}\n")
    assert result.fleets["tiny"].policy.retries.budget_percent == 0


def test_a_name_that_needs_no_change_is_nobody_elses(litellm):
    entries = "".join(
        f'  - {{model_name: "{name}", litellm_params: {{model: openai/x, api_base: "http://10.0.0.{n}:80/v1"}}}}\n'
        for n, name in enumerate(["A B", "a-b", "A/B"], 1)
    )
    fleets = litellm("model_list:\n" + entries).fleets
    assert {name: fleet.aliases for name, fleet in fleets.items()} == {
        "a-b-2": ["A B"],
        "a-b": [],
        "a-b-3": ["A/B"],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, column 1: is not a LiteLLM configuration: the file is empty"),
        ("just words", "is not a LiteLLM configuration: it has no model_list"),
        ("model_list: 5\n", "is not a LiteLLM configuration: it has no model_list"),
        ("upstream a { server b; }\n", "is not a LiteLLM configuration"),
        ("model_list:\n\t- a\n", "line 2, column 1: is not a LiteLLM configuration: not valid YAML"),
        (
            "model_list: []\nmodel_list: []\n",
            'line 2, column 1: is not a LiteLLM configuration: "model_list"',
        ),
        ("model_list: []\n", "holds no model with an http api_base in model_list"),
        ("model_list: [5, {}]\n", "holds no model with an http api_base in model_list"),
        (
            "model_list: [{model_name: a, litellm_params: {model: 5}}]\n",
            "needs model_name and litellm_params.model",
        ),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(litellm, text, words):
    result = litellm(text)
    assert result.status == 1
    assert words in result.told
    assert result.out == ""


def test_values_that_cannot_be_are_told(litellm):
    result = litellm(ONE.format(', weight: -1, timeout: fast, max_parallel_requests: 0, api_version: "1"'))
    assert result.status == 0
    assert result.fleets["tiny"].replicas[0].weight is None
    for words in (
        "weight -1: it must be from 0 to 1000",
        "timeout fast: total_s is from 0.001 to 86400 s",
        "tiny: max_parallel_requests: ",
        "tiny: api_version: Switchyard has no equivalent",
    ):
        assert words in result.told


FLEETS = "model_list:\n" + "".join(
    f"""  - model_name: {name}
    litellm_params: {{model: openai/{name}, api_base: "http://10.0.0.{number}:8000/v1"}}
"""
    for number, name in enumerate(("large", "small", "long", "Other Model"), 1)
)
USUAL = ["no_eligible_replica", "no_place", "replicas_failed", "first_token"]


def fallbacks(result) -> dict[str, list[tuple[str, list[str]]]]:
    return {
        name: [(one.fleet, one.causes) for one in fleet.policy.fallback]
        for name, fleet in result.fleets.items()
    }


def test_fallbacks(litellm):
    result = litellm(
        FLEETS
        + """
litellm_settings:
  default_fallbacks: [long, large]
router_settings:
  fallbacks: [{large: [small, {model: "Other Model"}]}]
  context_window_fallbacks: [{large: [long, small]}, {gone: [long]}]
  content_policy_fallbacks: [{large: [small]}]
"""
    )
    long = "context_length_exceeded"
    assert fallbacks(result) == {
        "large": [("small", [*USUAL, long]), ("other-model", USUAL), ("long", [long])],
        "small": [("long", USUAL)],
        "long": [],
        "other-model": [("long", USUAL)],
    }
    assert "fallbacks: a client key has to be for both fleets" in result.told
    assert "context_window_fallbacks gone to long: gone is not carried over" in result.told
    assert "default_fallbacks small to large: leads back to fleet small" in result.told
    assert "content_policy_fallbacks: what a replica refuses for its content is refused" in result.told


def test_fallbacks_that_lead_back_are_cut(litellm):
    result = litellm(FLEETS + "router_settings:\n  fallbacks: [{large: [small]}, {small: [large, small]}]\n")
    assert fallbacks(result)["large"] == [("small", USUAL)]
    assert fallbacks(result)["small"] == []
    assert "fallbacks small to large: leads back to fleet small (small → large → small)" in result.told
    assert "fallbacks small to small: fleet small cannot be its own fallback" in result.told


@pytest.mark.parametrize("value", ["large", "[large]", "[{large: 8}]", "{large: small}"])
def test_fallbacks_that_cannot_be_read(litellm, value):
    assert fallbacks(litellm(FLEETS + f"router_settings: {{fallbacks: {value}}}\n"))["large"] == []
