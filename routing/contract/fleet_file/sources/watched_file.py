"""Settings of a watched file."""

from pathlib import PurePosixPath

from routing.contract.field_rules import Section, Text

FILE_TYPES = (".yaml", ".yml", ".json")


def _file(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in text:
        raise ValueError(
            "must be the path of a file below the folder of SWITCHYARD_SOURCES_DIR, without .. and without "
            'a / before it, as "llm.yaml"'
        )
    if path.suffix not in FILE_TYPES:
        raise ValueError(f"must end in {', '.join(FILE_TYPES)}: that is how the file is read")
    return str(path)


FILE = Section(
    words="A watched file with a list of replicas, as in a fleet file.",
    what="a file source",
    fields={
        "path": Text(
            words="Path below the folder `SWITCHYARD_SOURCES_DIR` of the hosts of conductors.",
            what="path",
            check=_file,
            required='"llm.yaml"',
        )
    },
)
