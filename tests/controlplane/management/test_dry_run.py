"""Dry run: ``manage.py apply --dry-run`` in a transaction of its own, as a command has it.

Inside a test's outer transaction the inner one is a savepoint, which takes queries after the rollback is set.
"""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

from controlplane.models import Fleet, Replica

pytestmark = pytest.mark.django_db(transaction=True)

FILE = """\
version: 1
accelerators:
  - {name: gpu-0, memory_bytes: 80000000000}
fleets:
  - name: llm
    protocol: openai
    replicas:
      - {name: a, url: "http://10.0.0.1:8000"}
      - {name: b, url: "http://10.0.0.2:8000", accelerators: [gpu-0], memory_bytes: 20000000000}
"""
EXAMPLE = Path(__file__).parents[3] / "examples" / "fleets.yaml"


def dry_run(file: Path) -> list[str]:
    output = StringIO()
    call_command("apply", str(file), dry_run=True, stdout=output)
    return output.getvalue().splitlines()


def test_replicas_that_a_file_adds_are_told_and_not_written(tmp_path: Path) -> None:
    file = tmp_path / "fleets.yaml"
    file.write_text(FILE)
    wanted = ["fleet llm: created with 2 replicas", "Nothing was written: this was a dry run."]
    assert dry_run(file)[-2:] == wanted
    assert not Fleet.objects.exists()
    call_command("apply", str(file), stdout=StringIO())
    file.write_text(FILE + '      - {name: c, url: "http://10.0.0.3:8000"}\n')
    assert dry_run(file)[0] == "fleet llm: c: registered"
    assert Replica.objects.count() == 2


def test_the_example_file_can_be_tried(redis_client: object) -> None:
    assert dry_run(EXAMPLE)[-1] == "Nothing was written: this was a dry run."
    assert not Fleet.objects.exists()
