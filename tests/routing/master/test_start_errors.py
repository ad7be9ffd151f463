"""What stops a proxy from starting: one clear sentence on stderr, exit status not 0."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proxy_process import ROOT, Proxy, Replica, fleet_file


def refused(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit status and stderr of a proxy that must not start."""
    command = [sys.executable, "-m", "routing", *arguments]
    environment = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, env=environment)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say where the fleets come from: --redis URL or --fleets FILE"),
        (["--redis", "redis://x", "--fleets", "f.yaml"], "exclude each other"),
        (["--redis", "http://x"], "must begin with redis://"),
        (["--redis", "redis://x:port/0"], "Port could not be cast"),
        (["--redis", "env:SWITCHYARD_NO_SUCH_VARIABLE"], "the environment variable is not set"),
        (["--redis", "redis://x", "--listen", "8080"], "'8080' is not HOST:PORT"),
        (["--redis", "redis://x", "--listen", "::1:8080"], "write an IPv6 address in brackets"),
        (["--redis", "redis://x", "--max-connections", "0"], "'0' is not a number from 1 to 10000000"),
        (["--redis", "redis://x", "--max-connections", "9999999"], "9999999 do not fit: with ulimit -n"),
        (["--redis", "redis://x", "--workers", "0"], "'0' is not a number from 1 to 63"),
        (["--redis", "redis://x", "--drain-seconds", "soon"], "'soon' is not a number of seconds"),
        (["--redis", "redis://x", "--drain-seconds", "nan"], "'nan' is not a number of seconds"),
        (["--redis", "redis://x", "--drain-seconds", "1", "--min-drain-seconds", "2"], "must not be longer"),
        (["--redis", "redis://x", "--probe"], "--probe goes with --fleets"),
        (["--redis", "redis://x", "--name", "a/b"], "no '/'"),
        (["--redis", "redis://x", "--site", "Eu West"], "--site 'Eu West' is not the name of a site"),
        (["--fleets", "f.yaml", "--state-dir", "d"], "--state-dir goes with --redis"),
        (["--fleets", "/nowhere/f.yaml"], "/nowhere/f.yaml: No such file"),
        (["--fleets", "f.yaml", "--log-level", "loud"], "invalid choice: 'loud'"),
    ],
)
def test_wrong_flags(arguments: list[str], words: str) -> None:
    status, said = refused(*arguments)
    assert status == 2
    assert words in said
    assert len(said.splitlines()) == 1


def test_every_problem_of_a_fleet_file_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "fleets.yaml"
    file.write_text(
        "version: 1\nfleets:\n"
        "  - name: echo\n    protocol: grpc\n"
        "    policy: {strategy: magic}\n"
        "    replicas: [{name: a, url: 'ftp://x'}]\n"
    )
    status, said = refused("--fleets", str(file))
    assert status == 2
    lines = said.splitlines()
    assert [line.split(f"{file}: ")[1].split(",")[0] for line in lines] == ["line 4", "line 5", "line 6"]
    assert all("column" in line for line in lines)
    assert "Traceback" not in said


def test_a_port_in_use(tmp_path: Path, replicas: list[Replica]) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for flags in (
            ["--listen", f"127.0.0.1:{port}"],
            ["--listen", "127.0.0.1:0", "--admin", f"127.0.0.1:{port}"],
        ):
            status, said = refused("--fleets", str(file), *flags)
            assert status == 1
            assert f"port {port} on 127.0.0.1 is in use by another process" in said
            assert "Traceback" not in said


def test_a_second_proxy_does_not_share_the_port_silently(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    first = proxy("--fleets", str(file), "--workers", "1").ready()
    status, said = refused("--fleets", str(file), "--listen", f"127.0.0.1:{first.port}", "--admin", "none")
    assert status == 1
    assert "is in use by another process" in said


def test_a_fleet_file_without_an_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device")):
        status, said = refused("--fleets", str(path))
        assert (status, said.count("\n")) == (2, 1)
        assert f"--fleets {path}: is {what}, and only regular files are read" in said
