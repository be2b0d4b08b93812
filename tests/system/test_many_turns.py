"""A busy executor exchanges thousands of turns, and none is lost between it and the manager's loop."""

from tests.scripted.hand import HandDriven
from tests.scripted.world import running

TURNS = 4000


def test_no_turn_is_lost_while_an_executor_sends_as_fast_as_it_can() -> None:
    with running() as world, HandDriven(world.runtime_dir, "a") as executor:
        assert sum(executor.say() is not None for _ in range(TURNS)) == TURNS
        assert world.violated_invariants() == []
