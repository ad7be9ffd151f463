"""Wrong values in the environment stop the start with one message that says what to do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.config import environment
from controlplane.config.setting_docs import DECLARED, SettingDoc, page
from controlplane.config.system_checks import settings_spelt

pytestmark = pytest.mark.any_database

ROOT = Path(__file__).resolve().parents[3]


def load(tmp_path: Path, expression: str = "1", **values: str) -> subprocess.CompletedProcess[str]:
    """Imports the settings in a process of their own, as a start does."""
    code = f"from controlplane import settings; print({expression})"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, "SWITCHYARD_DATA_DIR": str(tmp_path), **values},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SWITCHYARD_DEBUG", "maybe", "is not a yes or no"),
        ("SWITCHYARD_DATA_DIR", "relative/folder", "must be an absolute path"),
        ("SWITCHYARD_REDIS_URL", "http://localhost", "must look like redis://host:port/0"),
        ("SWITCHYARD_REDIS_URL", "redis://localhost/zero", "not the number of a Redis database"),
        ("SWITCHYARD_REDIS_URL", "unix:///" + "x" * 120, "longer than 100 characters"),
        ("SWITCHYARD_DATABASE_URL", "mysql://localhost/x", "must begin with postgresql://"),
        ("SWITCHYARD_DATABASE_URL", "postgresql://localhost", "names no database"),
        ("SWITCHYARD_PROXY_URL", "127.0.0.1:8080", "must look like http://host:port"),
        ("SWITCHYARD_ALLOWED_ADDRESSES", "10.0.0.1/8", "is not a network: write 10.0.0.0/8"),
        ("SWITCHYARD_DENIED_ADDRESSES", "10.0.0.0/40", "SWITCHYARD_DENIED_ADDRESSES: "),
        ("SWITCHYARD_OWN_PORTS", "80 81", "is no port: write 8081"),
        ("SWITCHYARD_LOG_LEVEL", "LOUD", "is not one of DEBUG, INFO"),
    ],
)
def test_wrong_value_is_refused(tmp_path: Path, name: str, value: str, message: str) -> None:
    answer = load(tmp_path, **{name: value})
    assert answer.returncode != 0
    last_line = answer.stderr.strip().splitlines()[-1]
    assert "ImproperlyConfigured" in last_line
    assert message in last_line


def test_commands_say_it_in_one_line_and_keep_passwords_to_themselves(tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")},
        "SWITCHYARD_DATA_DIR": str(tmp_path),
        "SWITCHYARD_REDIS_URL": "redis://anna:secretpw@127.0.0.1:1/99x",
    }
    command = [sys.executable, "manage.py", "check"]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 1
    assert answer.stderr == (
        "Settings: SWITCHYARD_REDIS_URL='redis://anna:…@127.0.0.1:1/99x': "
        "'99x' is not the number of a Redis database.\n"
    )


def test_the_page_is_what_the_code_says() -> None:
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == page(), "run: manage.py settings_page > docs/settings.md"


def test_each_setting_that_is_read_is_declared_and_each_example_is_accepted(tmp_path: Path) -> None:
    source = (ROOT / "controlplane" / "settings.py").read_text()
    assert set(re.findall(r'"(SWITCHYARD_[A-Z_]+)"', source)) == set(DECLARED)
    examples = {each.name: each.example for each in DECLARED.values()}
    examples |= {
        "SWITCHYARD_DATA_DIR": str(tmp_path),
        "SWITCHYARD_SECRET_KEY": "x7" + "0123456789abcdefgh" * 3,
    }
    del examples["SWITCHYARD_DEBUG"]  # refused together with the public host of another example
    answer = load(tmp_path, **examples)
    assert answer.returncode == 0, answer.stderr
    assert load(tmp_path, SWITCHYARD_DEBUG=DECLARED["SWITCHYARD_DEBUG"].example).returncode == 0


@pytest.mark.parametrize("value", ["0", "101", "ten", "1.5", "-3", "9" * 30])
def test_a_number_out_of_range_is_refused_by_name_and_range(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SWITCHYARD_EXAMPLE", value)
    monkeypatch.setattr(environment, "declare", lambda *_: None)
    with pytest.raises(
        ImproperlyConfigured, match=r"SWITCHYARD_EXAMPLE='.*' is not a whole number from 1 to 100"
    ):
        environment.whole_number("SWITCHYARD_EXAMPLE", 5, 1, 100, about=SettingDoc("", "7"))
    monkeypatch.setenv("SWITCHYARD_EXAMPLE", "100")
    assert environment.whole_number("SWITCHYARD_EXAMPLE", 5, 1, 100, about=SettingDoc("", "7")) == 100


def test_a_misspelt_name_is_told_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHYARD_DATABSE_URL", "postgresql://x/y")
    monkeypatch.setenv("SWITCHYARD_VLLM_CREDENTIAL", "a replica's own, named by env:")
    warnings = settings_spelt(None)
    assert [(each.id, each.msg) for each in warnings] == [
        ("switchyard.W003", "SWITCHYARD_DATABSE_URL is not a setting and has no effect.")
    ]
    assert warnings[0].hint is not None
    assert "Did you mean SWITCHYARD_DATABASE_URL?" in warnings[0].hint


def test_public_host_with_a_guessable_secret_is_refused(tmp_path: Path) -> None:
    answer = load(tmp_path, SWITCHYARD_ALLOWED_HOSTS="fleet.example", SWITCHYARD_SECRET_KEY="secret")
    assert answer.returncode != 0
    assert "too weak to serve fleet.example" in answer.stderr


def test_public_host_with_debug_is_refused(tmp_path: Path) -> None:
    answer = load(tmp_path, SWITCHYARD_ALLOWED_HOSTS="*", SWITCHYARD_DEBUG="1")
    assert answer.returncode != 0
    assert "cannot serve *" in answer.stderr


def test_a_random_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    first = load(tmp_path, "settings.SECRET_KEY")
    second = load(tmp_path, "settings.SECRET_KEY")
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.strip()) > 60
    assert first.stdout == second.stdout
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("url", "channels", "celery"),
    [
        ("redis://10.0.0.1:6379/0", "redis://10.0.0.1:6379/1", "redis://10.0.0.1:6379/2"),
        ("redis://10.0.0.1:6379", "redis://10.0.0.1:6379/1", "redis://10.0.0.1:6379/2"),
        ("redis://:pw@h:1/3", "redis://:pw@h:1/4", "redis://:pw@h:1/5"),
        ("unix:///r.sock?db=0", "unix:///r.sock?db=1", "redis+socket:///r.sock?virtual_host=2"),
        ("unix://u:pw@/r.sock", "unix://u:pw@/r.sock?db=1", "redis+socket://u:pw@/r.sock?virtual_host=2"),
    ],
)
def test_one_redis_url_gives_all_three(tmp_path: Path, url: str, channels: str, celery: str) -> None:
    answer = load(
        tmp_path,
        "(settings.CHANNEL_LAYERS['default']['CONFIG']['hosts'][0], settings.CELERY_BROKER_URL)",
        SWITCHYARD_REDIS_URL=url,
    )
    assert answer.stdout.strip() == str((channels, celery))


def test_postgresql_url(tmp_path: Path) -> None:
    url = "postgresql://sy:p%40ss@db.example:5433/switchyard?sslmode=require"
    answer = load(
        tmp_path,
        "[settings.DATABASES['default'][k] for k in ('USER', 'PASSWORD', 'HOST', 'PORT', 'NAME', 'OPTIONS')]",
        SWITCHYARD_DATABASE_URL=url,
    )
    options = environment.POSTGRES_OPTIONS | {"sslmode": "require"}
    assert answer.stdout.strip() == str(["sy", "p@ss", "db.example", 5433, "switchyard", options])
