"""`dataclass` of the standard library, with methods that are compiled when they are first called.

The standard one compiles up to six for each class: about a fifth of what a command costs that only reads, and it makes
an instance of few of the classes it imports. Type checkers see the standard one. `InitVar` is not supported.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - handed on
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        init: bool = True,
        repr: bool = True,  # noqa: A002 - as there
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
        **options: Any,
    ) -> Any:
        """Make a class a dataclass. Options are those of the standard library."""
        if cls is None:
            return lambda cls: dataclass(cls, init=init, repr=repr, eq=eq, frozen=frozen, slots=slots, **options)
        if dataclasses.is_dataclass(cls):  # extends one: rare, and has rules of its own
            return dataclasses.dataclass(init=init, repr=repr, eq=eq, frozen=frozen, slots=slots, **options)(cls)
        made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, **options)(cls)
        if frozen:
            made.__dataclass_params__.frozen = True  # read where another class extends this one
            made.__setattr__, made.__delattr__ = _refuse_assignment, _refuse_deletion
            made.__getstate__, made.__setstate__ = _state, _restore
        wanted = {"__init__": init, "__repr__": repr, "__eq__": eq, "__hash__": eq}
        for name in [name for name, is_wanted in wanted.items() if is_wanted and vars(made).get(name) is None]:
            is_hashable = name != "__hash__" or frozen
            setattr(made, name, _compile_when_called(made, name, frozen=frozen, slots=slots) if is_hashable else None)
        return made

    def _compile_when_called(cls: type, name: str, *, frozen: bool, slots: bool) -> Any:
        def compile_and_call(*arguments: Any, **named: Any) -> Any:
            setattr(cls, name, _compile_method(cls, name, frozen=frozen, slots=slots))
            return getattr(cls, name)(*arguments, **named)

        compile_and_call.__qualname__ = f"{cls.__qualname__}.{name}"
        return compile_and_call

    def _compile_method(cls: type, name: str, *, frozen: bool, slots: bool) -> Any:
        """Return one method, taken from a dataclass that has the same fields and no other method."""
        namespace = {"__qualname__": cls.__qualname__}
        if hasattr(cls, "__post_init__"):
            namespace["__post_init__"] = cls.__post_init__
        twin = dataclasses.make_dataclass(
            cls.__name__,
            [(field.name, field.type, field) for field in dataclasses.fields(cls)],
            namespace=namespace,
            init=name == "__init__",
            repr=name == "__repr__",
            eq=name == "__eq__",
            unsafe_hash=name == "__hash__",
            frozen=frozen and name == "__init__",
            slots=slots and name == "__init__",  # then it sets defaults of fields that are no parameters
        )
        return vars(twin)[name]

    def _refuse_assignment(self: Any, name: str, value: Any) -> None:  # noqa: ARG001 - what Python hands over
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deletion(self: Any, name: str) -> None:  # noqa: ARG001 - what Python hands over
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _restore(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
