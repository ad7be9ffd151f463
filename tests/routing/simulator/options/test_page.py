"""The commands of docs/simulator.md, each for a moment, and its program."""

import re
import shlex
from pathlib import Path

import pytest

from routing.simulator.options import parse
from routing.simulator.simulation import simulate
from tests.docs.blocks import PROJECT, commands

PAGE = "docs/simulator.md"
BEGIN = ".venv/bin/python -m routing.simulator"
COMMANDS = [command.text for command in commands() if command.page == PAGE]


@pytest.mark.parametrize("text", COMMANDS)
def test_every_command_runs(text, monkeypatch, capsys):
    assert text.startswith(BEGIN)
    arguments = shlex.split(text.removeprefix(BEGIN))
    monkeypatch.chdir(PROJECT)
    if arguments == ["--help"]:
        with pytest.raises(SystemExit):
            parse(arguments)
        assert "--estimates" in capsys.readouterr().out
        return
    options = parse([*arguments, "--duration", "0.1"])
    for strategy in options.strategies:
        result = simulate(options.setting, strategy, options.parameters.get(strategy))
        assert all(request.end for request in result.requests)


def test_the_program_runs(capsys):
    (program,) = re.findall(r"```python\n(.*?)```", Path(PROJECT, PAGE).read_text("utf-8"), re.DOTALL)
    exec(program.replace("30.0", "6.0"), {})
    least_expected_work, round_robin = capsys.readouterr().out.splitlines()
    assert least_expected_work.startswith("least_expected_work 0.")
    assert "'answered'" in round_robin
