"""A real PostgreSQL for whole installations, and what the image would hold."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import postgres
from tests.deploy import image
from tests.deploy.services import clean_environment
from tests.needs import need


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.PostgresServer]:
    need(postgres.binaries(), postgres.ABSENT)
    server = postgres.PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


class Image(NamedTuple):
    root: Path
    """/srv/switchyard"""
    data: Path
    """/var/lib/switchyard"""


@pytest.fixture(scope="session")
def built_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image's two folders, made by the Dockerfile's own COPY and RUN lines that concern our code."""
    folder = tmp_path_factory.mktemp("image")
    built = Image(image.fill(folder / "root"), folder / "data")
    environment = {**clean_environment(), "SWITCHYARD_DATA_DIR": str(built.data)}
    for line in image.own_commands():
        command = line.replace("python ", f"{sys.executable} ", 1)
        done = subprocess.run(
            ["sh", "-c", command], cwd=built.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return built
