"""Replaces what the running package is made of; whatever is not there fails at once.

What is replaced is given as itself (`wrap(Ledger.charge, ...)`), so that tools which rename things
find it here, and type checkers miss it when it is gone.
"""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

_PACKAGE = "heterofedsyn"
_undo: list[Callable[[], None]] = []


class LostPlace(Exception):
    """What a bug is to be planted in is not there."""


@contextmanager
def for_a_while() -> Iterator[None]:
    """What is planted inside is taken out again, in the opposite order."""
    _undo.clear()
    try:
        yield
    finally:
        while _undo:
            _undo.pop()()


def put(owner: Any, name: str, value: object) -> None:
    """An attribute of a module or class that is there has another value."""
    if name not in vars(owner):
        raise LostPlace(f"{owner.__name__} has no {name}")
    before = vars(owner)[name]
    _undo.append(lambda: setattr(owner, name, before))
    setattr(owner, name, value)


def wrap(target: Any, new: Callable[..., Any], *, only: ModuleType | None = None) -> None:
    """A function runs as `new(true, ...)`, wherever the package knows it by a name.

    Args:
        target: a function, method, class method, static method or property.
        new: gets the true function, and then what that gets.
        only: the one module whose own calls run so, by the name that it imported.
    """
    _replace(target, lambda true: _instead(true, new), only)


def instead_of(
    target: Any, *, only: ModuleType | None = None
) -> Callable[[Callable[..., Any]], Callable[[], None]]:
    """What is decorated takes the place of a function when it is planted; see `wrap`."""
    return lambda new: lambda: wrap(target, new, only=only)


def changed(true: object, **others: object) -> Any:
    """What is like an object or module but for some attributes."""
    for name in others:
        if not hasattr(true, name):
            raise LostPlace(f"{true} has no {name}")

    class Changed:
        def __getattr__(self, name: str) -> Any:
            return others[name] if name in others else getattr(true, name)

    return Changed()


def shadow(module: ModuleType, imported: ModuleType, **others: object) -> None:
    """A module finds some attributes of another one that it imported changed; nobody else does."""
    put(module, _name_of(imported, module), changed(imported, **others))


def stands_in(module: ModuleType, new: Callable[..., Any]) -> Callable[..., Any]:
    """A function that stands in the file of a module, to those who look where a call is from."""
    assert isinstance(new, FunctionType)
    new.__code__ = new.__code__.replace(co_filename=module.__file__ or "")
    return new


def never(target: Any, *mentioned: str) -> None:
    """Of a function, the one `if` whose condition mentions these names never holds."""

    def change(tree: ast.AST) -> None:
        asks = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
        _one([node for node in asks if {*mentioned} <= _names(node.test)]).test = ast.Constant(
            False
        )

    _rewrite(target, change)


def leave_out(target: Any, called: Callable[..., Any]) -> None:
    """Of a function, the one statement that calls another is not executed."""

    def change(tree: ast.AST) -> None:
        steps = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
        _one([node for node in steps if _calls(node.value, called)]).value = ast.Constant(None)

    _rewrite(target, change)


def through(target: Any, called: Callable[..., Any], change: Callable[..., Any]) -> None:
    """In a method, its one call of a function is `change(whose method, that function, ...)`."""
    function = _function(target)
    known, name = function.__globals__, f"_planted_{called.__name__}"

    def pass_on(tree: ast.AST) -> None:
        call = _one([node for node in ast.walk(tree) if _calls(node, called)])
        own = ast.Name(function.__code__.co_varnames[0], ast.Load())
        call.args = [own, call.func, *call.args]
        call.func = ast.Name(name, ast.Load())

    known[name] = change
    _undo.append(lambda: known.pop(name))
    _rewrite(target, pass_on)


def _rewrite(target: Any, change: Callable[[ast.AST], None]) -> None:
    """A function is compiled anew, in the namespace of its module, after a change of its tree."""

    def anew(true: FunctionType) -> Callable[..., Any]:
        tree = ast.parse(textwrap.dedent(inspect.getsource(true)))
        (definition,) = tree.body
        if not isinstance(definition, ast.FunctionDef) or true.__closure__:
            raise LostPlace(f"{true.__qualname__} cannot be compiled by itself")
        definition.decorator_list = []
        try:
            change(tree)
        except LostPlace as lost:
            raise LostPlace(f"{true.__qualname__} {lost}") from None
        ast.fix_missing_locations(tree)
        late = __future__.annotations.compiler_flag
        code = compile(tree, true.__code__.co_filename, "exec", flags=late, dont_inherit=True)
        made: dict[str, FunctionType] = {}
        exec(code, true.__globals__, made)
        return functools.update_wrapper(made[true.__name__], true)

    _replace(target, anew, None)


def _replace(target: Any, make: Callable[[Any], Any], only: ModuleType | None) -> None:
    """Put what is made of the true function into its place, of the same kind as it was."""
    if only is not None:
        put(only, _name_of(target, only), make(target))
        return
    function = _function(target)
    *path, name = function.__qualname__.split(".")
    owner: Any = sys.modules[function.__module__]
    for step in path:
        owner = getattr(owner, step)
    raw = vars(owner).get(name)
    if _function(raw) is not function:
        raise LostPlace(f"{function.__module__} has another {function.__qualname__}")
    if isinstance(raw, staticmethod | classmethod):
        put(owner, name, type(raw)(make(raw.__func__)))
    elif isinstance(raw, property | functools.cached_property):
        put(owner, name, property(make(function)))
    elif path:
        put(owner, name, make(raw))
    else:
        made = make(raw)
        for owner in _owners():
            for known, value in list(vars(owner).items()):
                if value is raw:
                    put(owner, known, made)
                elif isinstance(value, staticmethod) and value.__func__ is raw:
                    put(owner, known, staticmethod(made))


def _instead(true: Any, new: Callable[..., Any]) -> Callable[..., Any]:
    _check_parameters(true, new)
    stands_in(sys.modules[true.__module__], new)

    @functools.wraps(true)
    def instead(*given: Any, **named: Any) -> Any:
        return new(true, *given, **named)

    return instead


def _check_parameters(true: Any, new: Callable[..., Any]) -> None:
    """What a bug takes by name is what the true function takes; it may call `self` as it likes."""
    there = list(inspect.signature(true).parameters)
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    _, *taken = inspect.signature(new).parameters.values()
    for place, parameter in enumerate(taken):
        own = place == 0 and there[:1] in (["self"], ["cls"])
        if not (own or parameter.kind in free or parameter.name in there):
            raise LostPlace(f"{true.__qualname__} takes no {parameter.name}, but {there}")


def _function(target: Any) -> Any:
    """The plain function, or the cached one, behind whatever kind of callable this is."""
    if isinstance(target, property):
        return target.fget
    if isinstance(target, functools.cached_property):
        return target.func
    return getattr(target, "__func__", target)


def _owners() -> list[Any]:
    """The modules of the package that were imported, and their classes."""
    loaded = sorted(name for name in sys.modules if f"{name}.".startswith(f"{_PACKAGE}."))
    modules = [sys.modules[name] for name in loaded]
    known = [value for module in modules for value in vars(module).values()]
    kinds = [kind for kind in known if isinstance(kind, type) and kind.__module__ in loaded]
    return [*modules, *dict.fromkeys(kinds)]


def _name_of(value: object, module: ModuleType) -> str:
    for name, known in vars(module).items():
        if known is value:
            return name
    raise LostPlace(f"{module.__name__} does not use {value}")


def _one(nodes: list[Any]) -> Any:
    if len(nodes) != 1:
        raise LostPlace(f"has {len(nodes)} such places")
    return nodes[0]


def _calls(node: ast.AST, called: Callable[..., Any]) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return name == called.__name__


def _names(node: ast.AST) -> set[str]:
    parts = list(ast.walk(node))
    plain = {part.id for part in parts if isinstance(part, ast.Name)}
    return plain | {part.attr for part in parts if isinstance(part, ast.Attribute)}
