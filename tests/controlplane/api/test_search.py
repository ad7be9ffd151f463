"""``?search=`` means the same in every list."""

import pytest

from tests.controlplane.conftest import Api

LISTS = (
    *("/fleets", "/fleets/llm/replicas", "/fleets/llm/revisions", "/hardware-classes"),
    *("/tokens", "/client-keys", "/events", "/audit"),
)


@pytest.mark.parametrize("path", LISTS)
def test_what_no_row_can_hold_is_refused(api: Api, llm: str, path: str) -> None:
    answer = api.get(f"{path}?search=%00")
    assert answer.status_code == 400
    assert "search contains a NUL character" in answer.json()["detail"]


def test_each_of_the_words_in_any_column(api: Api, llm: str) -> None:
    def found(words: str) -> list[str]:
        return [each["name"] for each in api.get(f"/fleets/llm/replicas?search={words}").json()["results"]]

    assert found("9101") == ["a"]
    assert found("9101%20A") == ["a"]
    assert found("9101%20b") == []
    assert found("") == ["a", "b"]
