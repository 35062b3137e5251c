"""What tests of this folder share."""

import os
from collections.abc import Iterator

import pytest

_USERS_OWN = os.environ.get("XDG_DATA_HOME")


@pytest.fixture(scope="module", autouse=True)
def images_of_the_user(data_home: None) -> Iterator[None]:
    """Let a container engine without root find its images: they lie in the data folder of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        if _USERS_OWN is None:
            patch.delenv("XDG_DATA_HOME", raising=False)
        else:
            patch.setenv("XDG_DATA_HOME", _USERS_OWN)
        yield
