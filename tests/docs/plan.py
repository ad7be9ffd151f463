"""What is done with each command of the pages: how it is run, or why it is not."""

from tests.docs.blocks import Command, commands

ENGINE = "needs a Docker engine; tests/deploy runs each service's command and health check without one"
MACHINE = "changes the machine: users, units, services"
CHECKOUT = "changes the checkout"
NOT_HERE = "needs a model server that is not installed with the tests"

NOT_RUN: dict[tuple[str, str], str] = {
    ("README.md", "make up"): "tests/system starts all that it starts, without make",
    ("README.md", "make test"): "is what runs these tests",
    ("docs/backup.md", "docker compose"): ENGINE,
    ("docs/backup.md", "install -d"): MACHINE,
    (
        "docs/performance.md",
        ".venv/bin/python -m tests.benchmarks",
    ): "measures, for minutes",
    ("docs/production.md", "docker compose"): ENGINE,
    ("docs/production.md", "useradd"): MACHINE,
    ("docs/production.md", "runuser"): MACHINE,
    ("docs/production.md", "(umask 077"): f"{MACHINE}; tests/deploy/test_redis_users.py runs the script",
    ("docs/production.md", 'echo "aclfile'): MACHINE,
    ("docs/production.md", 'sed -i "s|redis://'): MACHINE,
    ("docs/production.md", "systemctl"): f"{MACHINE}; tests/deploy runs what the units start",
    ("docs/proxy.md", "curl http://127.0.0.1:8091"): (
        "asks the proxy before it; tests/routing/master/test_memory_leases.py asks one"
    ),
    ("docs/proxy.md", "curl -X POST http://127.0.0.1:8081/upgrade"): (
        "is refused while the rolling restart before it is under way; "
        "tests/routing/master/upgrade/test_upgrade.py does it"
    ),
    (
        "docs/proxy.md",
        "curl --cacert",
    ): "asks the proxy before it; tests/routing/master/test_certificate_watcher.py asks one",
    (
        "docs/reliability.md",
        ".venv/bin/python -m tests.benchmarks",
    ): "runs for an hour",
    (
        "docs/scenarios.md",
        ".venv/bin/python -m",
    ): "tests/routing/simulator/test_scenarios.py and tests/examples/test_on_board.py run it, shorter",
    (
        "docs/routing-quality.md",
        ".venv/bin/python -m tests.benchmarks",
    ): "measures, and needs nginx to measure beside",
    ("docs/servers/llama-cpp.md", "llama-server"): f"{NOT_HERE}; tests/servers runs llama.cpp from a package",
    ("docs/servers/mlserver.md", "pip install"): "the tests have MLServer from a lock of their own",
    ("docs/servers/mlserver.md", "mlserver start"): "tests/servers runs it, with models that it makes",
    ("docs/servers/ollama.md", "OLLAMA_HOST="): NOT_HERE,
    ("docs/servers/sglang.md", "python -m sglang"): NOT_HERE,
    ("docs/servers/tgi.md", "docker run"): NOT_HERE,
    ("docs/servers/triton.md", "docker run"): NOT_HERE,
    ("docs/servers/vllm.md", "vllm serve"): NOT_HERE,
    (
        "docs/simulator-llm.md",
        ".venv/bin/python -m tests.benchmarks.llama",
    ): "takes minutes, and the right to limit CPU shares",
    (
        "docs/simulator-llm.md",
        ".venv/bin/python -m tests.benchmarks",
    ): "simulate for minutes; test_batching_rule.py and test_limited.py of the simulator do some of it",
    ("docs/upgrade.md", "git"): CHECKOUT,
    ("docs/upgrade.md", "install -d"): MACHINE,
    ("docs/upgrade.md", "make install"): CHECKOUT,
    ("docs/upgrade.md", "docker compose"): ENGINE,
    ("docs/upgrade.md", "systemctl"): MACHINE,
    ("docs/upgrade.md", "deploy/manage.sh migrate controlplane"): (
        "would take the running stack's tables back; tests/deploy/test_rollback.py takes back every migration"
    ),
}
"""(page, how the command begins) → why it is not run."""

FOREGROUND: dict[tuple[str, str], str] = {
    ("README.md", ".venv/bin/python -m routing --fleets"): "listening on",
    ("docs/proxy.md", ".venv/bin/python -m routing --fleets"): "listening on",
    ("docs/proxy.md", ".venv/bin/python -m routing --redis"): "listening on",
    ("docs/tracing.md", ".venv/bin/python -m examples.traces"): "listening on",
    ("docs/tracing.md", ".venv/bin/python -m routing --fleets"): "listening on",
    ("docs/servers/scikit-learn.md", ".venv/bin/python -m examples.digits.server"): "is trained",
}
"""These run until they are stopped: each is run by itself until it has said this."""

ON_POSTGRES = {
    ("docs/backup.md", "SWITCHYARD_DATABASE_URL=postgresql"),
    ("docs/upgrade.md", "runuser -u postgres -- createdb"),
    ("docs/upgrade.md", "export SWITCHYARD_DATABASE_URL=postgresql"),
    ("docs/upgrade.md", "deploy/manage.sh restore /var"),
}
"""Run after their page's others, with a PostgreSQL of the tests."""

RUN_ELSEWHERE = {
    "docs/api.md": "tests/controlplane/api/test_docs_examples.py",
    "docs/simulator.md": "tests/routing/simulator/options/test_page.py",
}
"""Pages whose every command another test runs."""


def is_among(command: Command, places: set[tuple[str, str]]) -> bool:
    return any(command.page == page and command.text.startswith(begin) for page, begin in places)


def reason_not_run(command: Command) -> str:
    """Empty: it is run."""
    found = [
        reason
        for (page, begin), reason in NOT_RUN.items()
        if command.page == page and command.text.startswith(begin)
    ]
    return found[0] if found else ""


def run_on_postgres() -> list[Command]:
    return [command for command in commands() if is_among(command, ON_POSTGRES)]


def run_in_foreground() -> list[Command]:
    return [command for command in commands() if is_among(command, set(FOREGROUND))]


def run_in_order() -> list[Command]:
    """All others that are run here, page by page."""
    apart = {*run_on_postgres(), *run_in_foreground()}
    return [
        command
        for command in commands()
        if command.page not in RUN_ELSEWHERE and command not in apart and not reason_not_run(command)
    ]


def report() -> str:
    """How many commands tests run, and of each other why not."""
    every = commands()
    left_out = [(command, reason) for command in every if (reason := reason_not_run(command))]
    lines = [
        f"tests run {len(every) - len(left_out)} of {len(every)} commands of README.md and docs/; not run:"
    ]
    for command, reason in left_out:
        lines.append(f"  {command.page}: {command.text.splitlines()[0][:60]} … {reason}")
    lines += [f"  (all of {page} are run by {test})" for page, test in RUN_ELSEWHERE.items()]
    return "\n".join(lines)
