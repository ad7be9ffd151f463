"""What must be meant is done with its token, also among the tokens of other consequences."""

from dataclasses import dataclass

import pytest

from controlplane.services.confirmation import SEPARATOR, Consequence, NeedsConfirmation


@dataclass(frozen=True)
class Flood(Consequence):
    salt = "tests.flood"
    place: str

    @property
    def words(self) -> str:
        return f"{self.place} is under water."

    @property
    def shown(self) -> object:
        return self.place


class Storm(Flood):
    salt = "tests.storm"


def refused(what: Consequence, given: str) -> str:
    with pytest.raises(NeedsConfirmation) as needed:
        what.refuse_unless(given)
    return needed.value.token


def test_tokens_of_several_consequences_stand_together() -> None:
    flood, storm = Flood("llm"), Storm("llm")
    both = refused(storm, refused(flood, ""))
    flood.refuse_unless(both)
    storm.refuse_unless(both)
    refused(Flood("chat"), both)
    refused(storm, flood.token)


def test_old_tokens_that_are_sent_along_do_not_pile_up() -> None:
    given = ""
    for number in range(20):
        given = refused(Flood(str(number)), given)
    assert len(given.split(SEPARATOR)) == 4
    Flood("19").refuse_unless(given)
    refused(Flood("0"), given)


@pytest.mark.parametrize("given", ["", ".", "....", "é", "x" * 9999, "0.<b>"])
def test_nonsense_confirms_nothing_and_is_not_said_again(given: str) -> None:
    assert refused(Flood("llm"), given) == Flood("llm").token
