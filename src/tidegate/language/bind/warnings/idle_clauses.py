"""Warnings about time clauses that leave out nearly all rows, or that have no effect."""

from __future__ import annotations

from tidegate.algebra.explain import duration_text
from tidegate.algebra.plan import Plan
from tidegate.algebra.properties import is_chronon
from tidegate.errors import Span, TidegateWarning
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext
from tidegate.time import CHRONON

TOO_COARSE = "W102"
NO_EFFECT = "W103"


def warn_of_time_clauses(source: syntax.StreamReference | syntax.Subquery, plan: Plan, around: BindContext) -> None:
    """Warn about the window and the granularity of a source in FROM; `plan` is the source without them."""
    _warn_no_effect(source, around)
    granularity = source.granularity
    length = _validity_length(source.window, plan)
    if granularity is not None and length is not None and length < granularity.size:
        _warn_too_coarse(granularity, length, around)


def _validity_length(window: syntax.AnyWindow | None, plan: Plan) -> int | None:
    """Return how long each row is valid, if this is known and the same for all rows."""
    match window:
        case _ if not is_chronon(plan):
            return None
        case None:
            return CHRONON
        case syntax.WindowClause(size=int(size), slide=1):
            return size
    return None


def _warn_too_coarse(granularity: syntax.GranularityClause, length: int, around: BindContext) -> None:
    step = duration_text(granularity.size)
    valid = "one instant" if length == CHRONON else duration_text(length)
    share = 100 * length / granularity.size
    kept = "almost all rows are left out" if share < 1 else f"only about {share:.0f} % of the rows remain"
    message = f"rows that are valid for {valid} are seldom valid at a whole multiple of {step}: {kept}"
    hint = (
        f"make the window at least as long as the granularity: WINDOW(RANGE {step.upper()}) GRANULARITY({step.upper()})"
    )
    _warn(TOO_COARSE, message, granularity.span, hint, around)


def _warn_no_effect(source: syntax.StreamReference | syntax.Subquery, around: BindContext) -> None:
    match source.window:
        case syntax.WindowClause(size=int(size), least=int(least), span=span) if least < size:
            hint = f"write WINDOW(RANGE {duration_text(size).upper()})"
            _warn(NO_EFFECT, "MIN has no effect: the window is always as long as MAX", span, hint, around)
        case syntax.RowsClause(rows=int(rows), least=int(least), span=span) if least < rows:
            hint = f"write WINDOW(ROWS {rows})"
            _warn(NO_EFFECT, "MIN has no effect: the window always has MAX rows", span, hint, around)
    match source.granularity:
        case syntax.GranularityClause(size=size, coarsest=int(coarsest), span=span) if size < coarsest:
            hint = f"write GRANULARITY({duration_text(size).upper()})"
            _warn(NO_EFFECT, "COARSEST has no effect: time always moves in steps of FINEST", span, hint, around)


def _warn(code: str, message: str, span: Span, hint: str, around: BindContext) -> None:
    around.warnings.append(TidegateWarning(code, message, span, hint=hint))
