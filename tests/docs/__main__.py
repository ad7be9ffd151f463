"""``python -m tests.docs``: how many of the pages' commands tests run, and why not the others."""

from tests.docs.plan import report

print(report())
