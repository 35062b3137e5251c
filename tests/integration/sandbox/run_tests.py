"""Runs tests; a program, so that any user can run it."""

import sys

import pytest

sys.exit(pytest.main(sys.argv[1:]))
