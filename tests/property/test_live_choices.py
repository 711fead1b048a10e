"""A query may move between plans of any choices, at any time and through restarts: its results stay exact."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support import stories
from support.examples import examples
from support.stories import DELAY, Story

from tidegate.live import prepared
from tidegate.live.plan_choice import Proposal, propose_plan
from tidegate.optimizer.advice import GroupPosition, KeyedJoins, PlanChoices

DECLARED = stories.STREAMS.replace("b.csv' TIMESTAMP BY t DELAY 2 US", "b.csv' TIMESTAMP BY t DELAY 2 US KEY (k)")
JOINED = "a WINDOW(RANGE 4) AS x JOIN b WINDOW(RANGE 6) AS y ON x.k = y.k"
QUERIES = [
    f"SELECT x.k AS k, MAX(x.v) AS v FROM {JOINED} GROUP BY x.k",
    f"SELECT y.v AS k, CAST(COUNT(x.v) AS INT) AS v FROM {JOINED} GROUP BY y.k, y.v",
    f"SELECT x.k AS k, y.v AS v FROM {JOINED}",
    f"SELECT x.v AS k, y.v AS v FROM {JOINED} WHERE x.v < 2",
    f"SELECT y.k AS k, MAX(x.v) AS v FROM {JOINED} WHERE y.v > 0 GROUP BY y.k",
    """SELECT x.k AS k, o.top AS v FROM a WINDOW(RANGE 3) AS x,
       (SELECT k, MAX(v) AS top FROM b WINDOW(RANGE 5) GROUP BY k) o WHERE x.k = o.k GROUP BY x.k, o.top""",
]
CHOICES = st.builds(
    PlanChoices, st.sampled_from(GroupPosition), st.sampled_from(KeyedJoins), st.booleans(), st.booleans()
)
ROWS = st.lists(st.tuples(st.integers(-DELAY, 2), st.integers(0, 3), st.integers(0, 2)), max_size=4)
"""Rows of `a`: how far ahead, how many keys back, and the value."""

ROUND = st.tuples(ROWS, st.integers(0, 2), st.sampled_from(["", "", "optimize", "optimize", "restart"]), CHOICES)


@given(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=2), st.lists(ROUND, min_size=6, max_size=14))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_a_query_stays_exact_whichever_plans_are_chosen(texts, rounds):
    chosen = PlanChoices()

    def propose(*known) -> Proposal:
        return Proposal(replace(propose_plan(*known).advice, choices=chosen))

    newest, moves = 0, 0
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(stories, "STREAMS", DECLARED),
        patch.object(prepared, "propose_plan", propose),
    ):
        story = Story(Path(folder), 1 + len(texts) % 2)
        for text in texts:
            story.register(text)
        for rows, partners, what, choices in rounds:
            story.arrive("a", [(ahead, max(newest - back, 0), v) for ahead, back, v in rows])
            story.arrive("b", [(1, newest + each, (newest + each) % 3) for each in range(partners)])
            newest += partners
            story.session.step()
            if what == "restart":
                story.restart(in_step=False)
            elif what == "optimize":
                chosen = choices
                before = story.session._live.version.next_phase
                story.change("optimize", "q0")
                moves += story.session._live.version.next_phase > before
        event(f"{min(moves, 3)} moves")
        story.finish()
        story.check()
