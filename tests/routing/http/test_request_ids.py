"""Request ids: distinct, and of one shape."""

from itertools import islice

from routing.http.request_ids import request_ids


def test_request_ids_are_distinct_and_of_one_shape() -> None:
    first, second = list(islice(request_ids(), 1000)), list(islice(request_ids(), 10))
    assert len({*first, *second}) == 1010
    assert all(len(one) == 24 and int(one, 16) >= 0 for one in first)
    assert len({one[:16] for one in first}) == 1
