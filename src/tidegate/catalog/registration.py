"""Functions and aggregates of Python, registered by name for SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from tidegate.catalog.catalog import Catalog
from tidegate.errors import QueryError
from tidegate.expressions.functions.user import user_aggregate, user_function


class Registration:
    """Something with a catalog, to which users add their functions.

    On Spark, functions travel to the workers with the plan, as part of the job.
    """

    catalog: Catalog = Catalog()

    def _check_open(self) -> None:
        """Refuse further use; a session that is closed does."""

    def function(
        self,
        name: str,
        function: Callable[..., Any] | None = None,
        *,
        arguments: Sequence[str],
        result: str,
        vectorized: bool = True,
    ) -> Callable[..., Any]:
        """Register a function of columns for SQL, or use it as a decorator.

        It takes and gives Arrow arrays, or with `vectorized` false single values, none of them NULL.

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
        """Register an aggregate for SQL: what the first value becomes, what a further one makes of it, and the result.

        Without functions it is a decorator of a class that has them. The order of values must not matter.

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
