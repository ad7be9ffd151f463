"""Roles as commands take them: ``read``, ``operate:team=search``."""

from argparse import ArgumentTypeError

from controlplane.access.grants import Grant

ROLE_HELP = (
    "read, operate (and drain, weights, policies) or administer (and fleets, replicas, labels); for fleets "
    "with certain labels only: operate:team=search,env=prod"
)


def role(text: str) -> Grant:
    """For argparse."""
    try:
        return Grant.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
