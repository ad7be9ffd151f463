"""The version of this software, as every process reports it."""

VERSION = "0.1.0"
