"""`dataclass` of the standard library, with methods that are compiled when they are first called.

The standard one compiles up to six for each class: about a fifth of what a command costs that only reads, and it makes
an instance of few of the classes it imports. Type checkers see the standard one. `InitVar` is not supported.

A frozen instance with slots is also made two to four times as fast: the standard one calls `object.__setattr__` for
each field. Here the instance has a class of the same layout that is not frozen until its fields are set.
"""

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - handed on
else:
    _MAX_SLOW = 3
    """Fields that are set one by one in less time than it takes to change the class twice."""

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
            fast = name == "__init__" and frozen and slots and cls.__bases__ == (object,)
            setattr(cls, name, _compile_init(cls) if fast else _compile_method(cls, name, frozen=frozen, slots=slots))
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

    def _compile_init(cls: type) -> Any:
        """Return the `__init__` of a frozen class with slots that extends nothing."""
        known: dict[str, Any] = {
            "_own_": cls,
            "_open_": type(cls.__name__, (), {"__slots__": vars(cls)["__slots__"]}),
            "_become_": vars(object)["__class__"].__set__,
            "_unset_": dataclasses.MISSING,
        }
        first, named, fast, slow = list[str](), list[str](), list[str](), list[str]()
        fields = dataclasses.fields(cls)
        for field in fields:
            name, value = field.name, field.name
            known[f"_set_{name}"] = vars(cls)[name].__set__
            default = "" if field.default is dataclasses.MISSING else f"_default_{name}"
            known[f"_default_{name}"] = field.default
            if field.default_factory is not dataclasses.MISSING:
                known[f"_make_{name}"], default = field.default_factory, "_unset_"
                value = f"_make_{name}() if {name} is _unset_ else {name}" if field.init else f"_make_{name}()"
            elif not field.init:
                if not default:
                    continue  # `__post_init__` sets it
                value = default
            if field.init:
                (named if field.kw_only else first).append(f"{name}={default}" if default else name)
            fast.append(f"  self.{name} = {value}")
            slow.append(f"{'  ' if len(fields) > _MAX_SLOW else ' '}_set_{name}(self, {value})")
        body = slow
        if len(fields) > _MAX_SLOW:
            body = [" if self.__class__ is _own_:", "  _become_(self, _open_)", *fast, "  self.__class__ = _own_"]
            body += [" else:", *slow]
        if hasattr(cls, "__post_init__"):
            body.append(" self.__post_init__()")
        parameters = ", ".join(["self", *first, *(["*", *named] if named else [])])
        made: dict[str, Any] = {}
        text = "\n".join([f"def __init__({parameters}):", *body, " return None"])
        exec(text, known, made)  # noqa: S102 - names of fields only, as the standard one does
        init = made["__init__"]
        init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
        init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
        return init

    def _refuse_assignment(self: Any, name: str, value: Any) -> None:  # noqa: ARG001 - what Python hands over
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deletion(self: Any, name: str) -> None:  # noqa: ARG001 - what Python hands over
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _restore(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
