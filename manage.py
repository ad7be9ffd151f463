#!/usr/bin/env python3
"""Django's command line, with Switchyard's own commands (``manage.py help`` lists them)."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    if sys.argv[1:2] == ["up"]:
        # Its flags decide where data live, and settings are read only once.
        from controlplane.supervision.environment import prepare

        prepare(sys.argv[2:])
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Settings: {error}")


if __name__ == "__main__":
    main()
