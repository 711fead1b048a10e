"""Register Python functions and aggregates for SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, overload

from tidegate.catalog.catalog import Catalog
from tidegate.errors import QueryError
from tidegate.expressions.functions.user_registry import user_aggregate, user_function

Made = TypeVar("Made")


class Registration:
    """Base class with a catalog to which users add functions.

    On Spark, functions are sent to the workers with the plan, as part of the job.
    """

    catalog: Catalog = Catalog()

    def _check_open(self) -> None:
        """Raise an error if the object is closed; subclasses override this."""

    def function(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        *,
        arguments: Sequence[str],
        result: str,
        vectorized: bool = True,
    ) -> Callable[..., Any]:
        """Register a function for SQL; without `function`, return a decorator.

        The function maps Arrow arrays to an Arrow array. If `vectorized` is false, it maps single values, none of
        them NULL, to a value.

        Examples
        --------
        >>> session = Registration()
        >>> @session.function("twice", arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
        ... def twice(value):
        ...     return 2 * value
        """
        self._check_open()

        def register(made: Callable[..., Any]) -> Callable[..., Any]:
            declared = user_function(name, made, arguments=arguments, result=result, vectorized=vectorized)
            self.catalog = self.catalog.with_function(declared)
            return made

        return register if function is None else register(function)

    @overload
    def aggregate(
        self,
        name: str,
        *,
        arguments: Sequence[str],
        type: str,
    ) -> Callable[[Made], Made]: ...

    @overload
    def aggregate(
        self,
        name: str,
        *,
        arguments: Sequence[str],
        type: str,
        initial: Callable[..., Any],
        merge: Callable[..., Any],
        result: Callable[[Any], Any],
    ) -> None: ...

    def aggregate(
        self,
        name: str,
        *,
        arguments: Sequence[str],
        type: str,  # noqa: A002 - the word of the language
        initial: Callable[..., Any] | None = None,
        merge: Callable[..., Any] | None = None,
        result: Callable[[Any], Any] | None = None,
    ) -> Callable[..., Any] | None:
        """Register an aggregate for SQL; without the three functions, return a decorator for a class that has them.

        `initial` converts the first value to a state, `merge` adds another value to the state, and `result` converts
        the state to the result. The order of values must not matter.

        Examples
        --------
        >>> session = Registration()
        >>> session.aggregate("product", initial=lambda v: v, merge=lambda p, v: p * v, result=lambda p: p,
        ...                   arguments=["DOUBLE"], type="DOUBLE")
        """
        self._check_open()

        def register(made: Any) -> Any:
            parts = {"initial": made.initial, "merge": made.merge, "result": made.result}
            declared = user_aggregate(name, **parts, arguments=arguments, type_=type)
            self.catalog = self.catalog.with_function(declared)
            return made

        given = [part for part in (initial, merge, result) if part is not None]
        if not given:
            return register
        if len(given) < 3:
            raise QueryError("Q122", f"the aggregate '{name}' is not complete", hint="give initial, merge and result")
        register(SimpleNamespace(initial=initial, merge=merge, result=result))
        return None
