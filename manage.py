#!/usr/bin/env python3
"""Django's command line, with Switchyard's own commands (``manage.py help`` lists them)."""

import sys

from controlplane.command_line import django

if __name__ == "__main__":
    django(sys.argv)
