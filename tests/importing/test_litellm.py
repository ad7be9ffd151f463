"""``switchyard import litellm``: what a proxy's configuration says, read back from the file made of it."""

import pytest

from tests.importing.conftest import SAMPLES

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
    assert "strategy: random  # routing_strategy simple-shuffle, line 48" in out


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (6, "api_key os.environ/VLLM_KEY: credentials of replicas are not kept yet"),
        (7, "rpm 600: there are no rate limits"),
        (20, "Llama-3-8B on another/model: replicas of a fleet serve one model"),
        (34, "embed: mode: models are not described"),
        (35, "gpt-4o on azure/gpt-4o: https to replicas is not supported"),
        (40, "claude on anthropic/claude: no api_base: anthropic is a service"),
        (43, "* on openai/*: a fleet serves one model"),
        (52, "redis_host: not needed"),
        (53, "alias gone: the model that it stands for is not carried over"),
        (57, "drop_params: bodies are passed on"),
        (58, "fallbacks: a request stays with its fleet"),
        (61, "master_key: client keys are made in the control plane"),
        (63, "environment_variables: there is no counterpart"),
        (49, "num_retries 2: retries are a share of all requests"),
        (28, "embed on ollama/nomic-embed-text: it is asked in the OpenAI protocol"),
    ],
)
def test_what_is_not_carried_over_or_differs_is_listed_with_its_line(run, line, what):
    assert run("litellm", SAMPLE).note(what).startswith(f"{SAMPLE} line {line}: ")


def test_secrets_are_never_shown(run):
    result = run("litellm", SAMPLE)
    assert "secret" not in result.out + result.told


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
    assert ("there is no counterpart; fleets get the default" in result.told) == (
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
        "tiny: api_version: there is no counterpart",
    ):
        assert words in result.told
