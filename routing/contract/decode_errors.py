"""Decode errors: what msgspec raises for bytes that cannot be decoded: its own errors and two of Python's."""

import msgspec

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Of bytes that are no such message, of text that is not UTF-8, of what is nested too deeply."""
