"""Warnings about time clauses that leave out nearly all rows, or of which a part has no effect."""

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


def warn_of_fixed_size(clause: syntax.AnyWindow | syntax.GranularityClause, why: str, around: BindContext) -> None:
    """Warn about a range of sizes of which always the best one is used, with the reason."""
    match clause:
        case syntax.WindowClause(size=int(size), span=span):
            hint = f"write WINDOW(RANGE {duration_text(size).upper()})"
            _warn(NO_EFFECT, f"MIN has no effect, because {why}: it is always as long as MAX", span, hint, around)
        case syntax.RowsClause(rows=int(rows), slide=slide, span=span):
            hint = f"write WINDOW(ROWS {rows}{'' if slide == 1 else f' SLIDE {slide}'})"
            _warn(NO_EFFECT, f"MIN has no effect, because {why}: it always has MAX rows", span, hint, around)
        case syntax.GranularityClause(size=size, span=span):
            hint = f"write GRANULARITY({duration_text(size).upper()})"
            message = f"COARSEST has no effect, because {why}: time always moves in steps of FINEST"
            _warn(NO_EFFECT, message, span, hint, around)


def _warn(code: str, message: str, span: Span, hint: str, around: BindContext) -> None:
    around.warnings.append(TidegateWarning(code, message, span, hint=hint))
