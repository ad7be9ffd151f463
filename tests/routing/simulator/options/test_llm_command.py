"""``python -m routing.simulator`` with requests to language models."""

import json

import pytest

from routing.simulator import __main__ as command
from routing.simulator.gpus import Gpu
from routing.simulator.options import BadSimulationOptions, parse

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:15:{second:02}.0000000,{300 + second},{20 + second}\n" for second in range(60)
)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(AZURE)
    return str(path)


def run(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["simulator", *arguments])
    status = command.main()
    told = capsys.readouterr()
    return status, told.out, told.err


FEW = ("--duration", "3", "--strategies", "least_expected_work,round_robin", "--steady")


def test_figures_of_tokens_stand_beside_latencies(monkeypatch, capsys):
    status, out, _ = run(monkeypatch, capsys, "--workload", "llm", "--json", *FEW)
    assert status == 0
    for result in json.loads(out)["results"]:
        assert 0 < result["p99_s_between_tokens"] <= result["p99_s_per_token"] < 1
        assert 0 < result["p99_first_token_s"] < result["p99_s"]
        assert 0 < result["p50_s"] < result["mean_s"]
    _, out, _ = run(monkeypatch, capsys, "--workload", "llm", *FEW)
    assert "p99 first token ms" in out
    assert len({len(line.split("  ")[0]) for line in out.splitlines() if line.startswith("---")}) == 1


def test_other_workloads_have_no_columns_for_tokens(monkeypatch, capsys):
    _, out, _ = run(monkeypatch, capsys, "--workload", "bimodal", "--duration", "1", "--strategies", "random")
    assert "token" not in out


def test_a_trace_is_replayed(monkeypatch, capsys, trace):
    arguments = ("--workload", "azure", "--trace", trace, "--speeds", "1,2", "--json", *FEW)
    status, out, _ = run(monkeypatch, capsys, *arguments)
    assert status == 0
    assert {result["requests"] for result in json.loads(out)["results"]} == {60}
    assert run(monkeypatch, capsys, *arguments)[1] == out


def test_the_servers_are_as_the_command_line_says(trace, tmp_path):
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(
        "version: 1\nfleets:\n- name: chat\n  protocol: openai\n  replicas:\n"
        "  - {name: big, url: 'http://10.0.0.1:8000', weight: 4}\n"
        "  - {name: small, url: 'http://10.0.0.2:8000', max_concurrency: 3}\n"
    )
    options = parse(["--workload", "llm", "--fleet", str(fleet), "--batch", "8", "--kv-tokens", "9000"])
    big, small = options.setting.fleet.machines
    assert (big.speed, small.speed, small.max_concurrency, small.capacity) == (4.0, 1.0, None, 1.0)
    assert options.setting.workload.gpu == Gpu(batch=8, kv_tokens=9000)
    told = parse(["--workload", "llm", "--speeds", "2x3", "--hide-weights"]).setting.fleet.machines
    assert [(one.speed, one.weight) for one in told] == [(2.0, 1.0)] * 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--workload", "azure"], "--workload azure replays a trace: give its file with --trace FILE"),
        (
            ["--workload", "llm", "--trace", "x"],
            "--trace goes with --workload azure or mooncake",
        ),
        (
            ["--workload", "azure", "--trace", "nowhere.csv"],
            "--trace nowhere.csv cannot be read: No such",
        ),
        (["--workload", "llm", "--strategies", "central_fifo"], "central_fifo knows servers with slots only"),
        (["--workload", "llm", "--batch", "0"], "--batch: give a whole number from 1"),
    ],
)
def test_what_cannot_be_is_refused_in_words(arguments, says):
    with pytest.raises(BadSimulationOptions) as refused:
        parse(arguments)
    assert says in str(refused.value)


def test_a_wrong_line_of_a_trace_is_named(monkeypatch, capsys, trace):
    with open(trace, "a") as file:
        file.write("2023-11-16 18:16:00.0000000,many,1\n")
    status, out, err = run(monkeypatch, capsys, "--workload", "azure", "--trace", trace)
    assert (status, out) == (2, "")
    assert f"--trace {trace}, line 62, column ContextTokens: 'many' is no number of tokens" in err
