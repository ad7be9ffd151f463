"""Fields of answers, made from the rules of what is set."""

import msgspec
import pytest
from rest_framework import serializers

from controlplane.api.serializers.replicas import ReplicaChangedSerializer, ReplicaSerializer
from controlplane.api.serializers.rule_fields import setting_fields
from routing.contract.field_rules import Choice, Flag, ListOf, Number, Scalars, Section, Text
from routing.contract.fleet_file.replica_rules import REPLICA


class Shelf(msgspec.Struct):
    name: str
    size: int | None = None
    width: float = 1.0
    note: str = ""
    kind: str = "wood"
    firm: bool = True
    books: list[str] = []


SHELF = Section(
    words="A shelf.",
    what="a shelf",
    fields={
        "name": Text(words="Its name.", required="a"),
        "size": Number(words="Most books.", minimum=1, maximum=9, whole=True, nullable=True),
        "width": Number(words="Metres.", minimum=0, maximum=9, nullable=True),
        "note": Text(words="A note.", nullable=True),
        "kind": Choice(words="Its kind.", options=("wood", "steel")),
        "firm": Flag(words="Whether it is."),
        "books": ListOf(words="Its books.", item=Text(words="A title."), plural="titles"),
    },
)


def test_each_setting_has_the_field_of_its_rule() -> None:
    fields = setting_fields(SHELF, Shelf, {})
    assert [(name, type(field)) for name, field in fields.items()] == [
        ("name", serializers.CharField),
        ("size", serializers.IntegerField),
        ("width", serializers.FloatField),
        ("note", serializers.CharField),
        ("kind", serializers.ChoiceField),
        ("firm", serializers.BooleanField),
        ("books", serializers.ListField),
    ]


def test_the_default_says_what_an_answer_may_have_instead_of_a_value() -> None:
    """A rule may be nullable and its answer not: null then puts the default back."""
    fields = setting_fields(SHELF, Shelf, {})
    assert [name for name, field in fields.items() if field.allow_null] == ["size"]
    assert [name for name, field in fields.items() if getattr(field, "allow_blank", False)] == ["note"]


def test_words_are_those_of_the_rule_unless_there_are_others() -> None:
    fields = setting_fields(SHELF, Shelf, {"note": "Empty: none.", "name": ""})
    assert (fields["name"].help_text, fields["note"].help_text) == ("", "Empty: none.")
    assert fields["size"].help_text == "Most books."


def test_a_kind_of_rule_without_a_field_is_refused() -> None:
    section = Section(words="", what="", fields={"name": Scalars(words="")})
    with pytest.raises(TypeError, match="no serializer field for Scalars"):
        setting_fields(section, Shelf, {})


@pytest.mark.parametrize("serializer", [ReplicaSerializer, ReplicaChangedSerializer])
def test_an_answer_about_a_replica_has_all_its_settings_in_their_order(
    serializer: type[ReplicaSerializer],
) -> None:
    fields = list(serializer().fields)
    assert [name for name in fields if name in REPLICA.fields] == [*REPLICA.fields]
    assert fields[fields.index("name") + 1] == "uid"
    assert fields[fields.index("weight") + 1] == "effective_weight"
