"""``python -m routing.simulator``: what it prints, draws and says of what it is told wrongly."""

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from routing.simulator.options import BadSimulationOptions, parse

QUICK = ["--duration", "0.5"]


def command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Its end, as a user sees it who runs it without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "routing.simulator", *arguments],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_json_has_the_strategies_in_their_order_and_nothing_else_is_written():
    given = (
        "--workload bimodal --load 0.85 --proxies 4 --seed 1 --strategies least_expected_work,central_fifo"
    )
    ended = command(*given.split(), "--json", *QUICK)
    assert (ended.returncode, ended.stderr) == (0, "")
    results = json.loads(ended.stdout)["results"]
    assert [result["strategy"] for result in results] == ["least_expected_work", "central_fifo"]
    for result in results:
        assert 0 < result["p50_s"] <= result["p95_s"] <= result["p99_s"] < 2
        assert 0 < result["mean_s"] < result["p99_s"]
    assert ended.stdout == command(*given.split(), "--json", *QUICK).stdout


def test_table_and_plot_name_every_strategy_with_units(tmp_path):
    ended = command("--strategies", "random,power_of_two", "--plot", "latency.svg", *QUICK, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    title, _, head, _, *rows = ended.stdout.splitlines()
    assert title == "bimodal, load 85%, one proxy, 0.5 s, seed 1"
    assert head.split("  ")[0] == "strategy"
    assert "p99 ms" in head
    assert [row.split()[0] for row in rows[:2]] == ["random", "power_of_two"]
    drawn = "".join(ElementTree.fromstring((tmp_path / "latency.svg").read_text()).itertext())
    assert "random" in drawn
    assert "power_of_two: p99" in drawn


def everything(reader: int) -> bytes:
    """What was written to a terminal that is closed by now."""
    with open(reader, "rb", buffering=0) as written, contextlib.suppress(OSError):
        return written.read(65536)
    return b""


def test_progress_is_shown_to_whoever_watches():
    reader, terminal = pty.openpty()
    try:
        arguments = [sys.executable, "-m", "routing.simulator", "--strategies", "random", *QUICK]
        env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
        subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=terminal, timeout=60, check=True, env=env)
    finally:
        os.close(terminal)
    shown = everything(reader).decode()
    assert "random:  50%" in shown
    assert shown.endswith("\r\033[K")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--strategies best", "--strategies: there is no strategy 'best'; choose of: least_expected_work, "),
        ("--load 0", "--load: give a number above 0, at most 10, not '0'"),
        ("--duration nan", "--duration: give a number above 0, at most 86400, not 'nan'"),
        ("--proxies 0", "--proxies: give a whole number from 1 to 64, not '0'"),
        ("--profile 5:1", "--profile: give TIME:FACTOR pairs with growing times, the first at 0"),
        ("--speeds 1x0", "--speeds: give speeds above 0, each with how many"),
        ("--slow r16:3", "--slow r16:3: write it as r16:20-40:0.33, times in seconds"),
        ("--crash r16:9-3", "--crash r16:9-3: its end must be after its begin"),
        ("--fail r99:1-2", "there is no replica 'r99' for something to go wrong with; choose one of: r1, "),
        ("--steady --cold r1:3", "--steady says that nothing goes wrong: leave it out, or the faults"),
        ("--cold r1:-1", "--cold r1:-1: give a time above 0 at which it is ready, as in r16:20"),
        ("--join r1:0", "--join r1:0: give a time above 0 at which it joins, as in r16:20"),
        ("--join r1", "--join r1: write it as r16:20, times in seconds"),
        ("--bursts 1:4:20", "--bursts: give FACTOR:LENGTH:EVERY, a factor above 1"),
        ("--bursts 5:20:4", "--bursts: give FACTOR:LENGTH:EVERY, a factor above 1"),
        ("--bursts 5:4:20 --profile 0:1,5:2", "--bursts and --profile exclude each other"),
        ("--connect -2", "--connect: give a number above 0, at most 60, not '-2'"),
        ("--cold r1:nan", "--cold r1:nan: give a time above 0"),
        ("--parameters kappa=3", "--parameters 'kappa=3': give STRATEGY.KEY=VALUE"),
        (
            "--parameters least_expected_work.kappa=99",
            "parameter 'kappa' of least_expected_work must be between",
        ),
        ("--parameters central_fifo.x=1", "central_fifo has no parameters; leave them out"),
        ("--limit 0", "--limit: give a whole number from 1 to 1000000, not '0'"),
        ("--policy queue.size=-1", "--policy queue.size: must be"),
        ("--warm-up r9", "--warm-up r9: write it as r2:3:0.05 or, for all replicas, 3:0.05"),
        ("--warm-up 3:0", "--warm-up 3:0: write it as r2:3:0.05"),
        ("--warm-up r99:3:0.1", "--warm-up r99:3:0.1: there is no replica 'r99'; choose one of: r1, "),
        ("--plot a.png", "--plot: the plot is written as SVG: give a name that ends in .svg"),
        ("--plot /no/such/a.svg", "--plot: there is no folder /no/such: make it first, or give another"),
        ("--fleet /no/such.yaml", "--fleet /no/such.yaml: No such file or directory; give the path"),
        ("--fleet a --speeds 1", "--fleet and --speeds exclude each other"),
        ("--wrong", "unrecognized arguments: --wrong; --help lists all options"),
    ],
)
def test_what_is_wrong_is_said_by_option_with_the_cure(arguments, words):
    with pytest.raises(BadSimulationOptions) as error:
        parse(arguments.split())
    assert words in str(error.value)


def test_wrong_input_ends_with_2_and_one_line(tmp_path):
    ended = command("--load", "much")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            "--duration 0.0001",
            "no request arrived within 0.0001 s: make --duration longer, or --load (0.85) higher",
        ),
        ("--workload llm --kv-tokens 1 --json", "higher, or --kv-tokens larger"),
    ],
)
def test_where_nothing_arrives_there_is_nothing_to_compare(arguments, words):
    ended = command(*arguments.split(), "--strategies", "random")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.endswith(f"{words}\n")


def test_figures_and_shares_from_a_second_on():
    options = ["--strategies", "round_robin", "--speeds", "1,1,2", "--duration", "8"]
    whole = command(*options, "--json")
    (later,) = json.loads(command(*options, "--json", "--from", "4", "--shares").stdout)["results"]
    assert 0.4 < later["requests"] / json.loads(whole.stdout)["results"][0]["requests"] < 0.6
    assert later["shares"] == pytest.approx({"r1": 0.25, "r2": 0.25, "r3": 0.5}, abs=0.01)
    shown = command(*options, "--from", "4", "--shares").stdout
    assert shown.startswith("bimodal, load 85%, one proxy, 8 s, seed 1, from 4 s on\n")
    row = [line for line in shown.splitlines() if line.startswith("round_robin")][1]
    assert [float(share.rstrip("%")) for share in row.split()[1:]] == pytest.approx([25, 25, 50], abs=1)


def test_where_nothing_arrives_from_a_second_on_it_is_said():
    ended = command("--strategies", "random", *QUICK, "--from", "3")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "no request arrived from 3 s on: make --from less\n"


def test_a_limit_is_a_wall_for_every_kind_of_server():
    for workload in ("bimodal", "llm"):
        setting = parse(["--workload", workload, "--limit", "64"]).setting
        assert {machine.max_concurrency for machine in setting.fleet.machines} == {64}
        assert setting.policy.queue.at == "proxy"
    assert parse(["--limit", "64", "--queue", "replica"]).setting.policy.queue.at == "replica"
    assert parse(["--policy", "slow_start_s=3", "--slow-start", "9"]).setting.policy.slow_start_s == 3


def test_some_or_all_replicas_warm_up():
    machines = parse(
        ["--speeds", "1x3", "--warm-up", "5:0.5", "--warm-up", "r2:3:0.05"]
    ).setting.fleet.machines
    assert [machine.warm_up for machine in machines] == [(5, 0.5), (3, 0.05), (5, 0.5)]


def test_connections_and_bursts_are_those_of_the_command_line():
    setting = parse(["--connect", "0.02", "--bursts", "5:4:20", "--seed", "3"]).setting
    assert setting.connect_s == 0.02
    assert len(setting.traffic.profile) > 2
    assert setting.traffic.profile == parse(["--bursts", "5:4:20", "--seed", "3"]).setting.traffic.profile
    assert setting.traffic.profile != parse(["--bursts", "5:4:20"]).setting.traffic.profile


def test_how_servers_work_is_a_field_of_the_policy():
    setting = parse(["--serves", "batch"]).setting
    assert setting.policy == parse(["--policy", "serves=batch"]).setting.policy != parse([]).setting.policy


def test_strategies_that_go_by_keys_are_compared_where_there_are_keys():
    keyed = {"consistent_hash", "prefix_affinity"}
    assert keyed.isdisjoint(parse([]).strategies)
    assert keyed.isdisjoint(parse(["--workload", "llm"]).strategies)
    assert keyed < {*parse(["--workload", "conversations"]).strategies}
    assert parse(["--strategies", "consistent_hash"]).strategies == ["consistent_hash"]


def test_a_fleet_file_s_weights_are_speeds_and_its_policy_holds(tmp_path):
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "version: 1\n"
        "hardware:\n- {name: fast, weight: 3}\n"
        "fleets:\n- name: digits\n  protocol: generic\n"
        "  policy: {max_concurrency: 2, queue: {size: 7}}\n"
        "  replicas:\n"
        "  - {name: a, url: 'http://10.0.0.1:80', hardware: fast}\n"
        "  - {name: b, url: 'http://10.0.0.2:80', max_concurrency: 8}\n"
    )
    setting = parse(["--fleet", str(file)]).setting
    assert [(one.name, one.speed, one.slots, one.max_concurrency) for one in setting.fleet.machines] == [
        ("a", 3.0, 2, 2),
        ("b", 1.0, 8, 8),
    ]
    assert (setting.policy.queue.size, setting.policy.queue.at, setting.faults) == (7, "proxy", [])
