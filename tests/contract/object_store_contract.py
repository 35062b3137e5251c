"""What every store of objects promises."""

import pytest

from agent_fabric.application.ports.workspace_archive import ObjectStore
from agent_fabric.domain.errors import StoreUnavailable


class ObjectStoreContract:
    async def test_what_was_put_is_what_is_got(self, objects: ObjectStore) -> None:
        for name, data in (("r-1/a", b"one"), ("r-1/b", b""), ("r-1/c", bytes(range(256)) * 4096)):
            await objects.put(name, data)
            await objects.put(name, data)
            assert await objects.get(name) == data

    async def test_what_is_not_there_is_an_error_that_names_the_place(self, objects: ObjectStore) -> None:
        with pytest.raises(StoreUnavailable, match="cannot be used") as missing:
            await objects.get("r-1/nothing")
        assert objects.place in missing.value.message

    async def test_all_objects_of_a_run_are_deleted_and_no_others(self, objects: ObjectStore) -> None:
        for name in ("r-2/a", "r-2/b", "r-2/c & d", "r-2/e+f", "r-2/ü", "r-22/a"):
            await objects.put(name, b"data")
        assert await objects.remove("r-2/") == 5
        assert await objects.remove("r-2/") == 0
        assert await objects.get("r-22/a") == b"data"
        with pytest.raises(StoreUnavailable):
            await objects.get("r-2/a")
