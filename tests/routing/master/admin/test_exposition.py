"""The Prometheus text format."""

import pytest

from routing.contract.sketch import bucket_of
from routing.master.admin.exposition import Exposition


def test_a_histogram_is_cumulative_and_labels_are_escaped() -> None:
    out = Exposition()
    out.histogram("t", "Help.", [((("fleet", 'a"b\\'),), {bucket_of(0.02): 3, bucket_of(400.0): 1})])
    lines = out.encode().decode().splitlines()
    assert lines[:2] == ["# HELP t Help.", "# TYPE t histogram"]
    assert 't_bucket{fleet="a\\"b\\\\",le="0.01"} 0' in lines
    assert 't_bucket{fleet="a\\"b\\\\",le="0.025"} 3' in lines
    assert 't_bucket{fleet="a\\"b\\\\",le="300.0"} 3' in lines
    assert 't_bucket{fleet="a\\"b\\\\",le="+Inf"} 4' in lines
    assert 't_count{fleet="a\\"b\\\\"} 4' in lines
    total = float(next(line for line in lines if line.startswith("t_sum")).rpartition(" ")[2])
    assert total == pytest.approx(400.06, rel=0.02)
