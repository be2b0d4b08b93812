"""Messages get lost, late or held back between executors and manager."""

from itertools import pairwise

from tests.scripted import workload
from tests.scripted.hand import HandDriven
from tests.scripted.proxy import Proxy
from tests.scripted.world import World, running

TURNS_HELD = 8

SEED = 4
"""With it two turns and three replies are lost of the first fifteen, more than which come of so many requests at least."""


def proxied(world: World, **losses: float) -> Proxy:
    """A proxy of this world's manager."""
    return Proxy(world.runtime_dir, world.directory / "proxy", seed=SEED, **losses)


def test_replies_and_turns_lost_at_random_lose_no_token_and_repeat_none() -> None:
    requests = workload.mixed(50, 60)
    with running() as world, proxied(world, lose_request=0.05, lose_reply=0.1) as proxy:
        world.start_executor("a", requests, runtime_dir=str(proxy.folder)).await_done()
        assert min(proxy.lost_turns, proxy.lost_replies) >= 2
        assert world.statistics().counters.repeated_turns == proxy.lost_replies, (
            "turns whose replies were lost came again"
        )
        world.check_delivered("a", requests)
        world.check_memory()


def test_a_call_whose_answer_is_lost_is_made_once_however_often_it_is_repeated() -> None:
    with running() as world, proxied(world, lose_reply=0.6) as proxy:
        for _ in range(4):
            with HandDriven(proxy.folder, "a") as executor:
                assert [one.name for one in world.registrations()] == ["a"]
                executor.registration.adopt()
                executor.registration.ready()
                executor.session.close()
                executor.registration.unregister()
            assert world.registrations() == []
        assert proxy.lost > 4


def test_with_every_reply_held_back_the_engine_runs_on_through_all_its_look_ahead() -> None:
    look_ahead, depth = 9, 2
    requests = workload.plain(51, 4, prompt=6, output=120)
    with running() as world, proxied(world) as proxy:
        proxy.hold()
        settings = {"look_ahead": look_ahead, "depth": depth}
        executor = world.start_executor("a", requests, runtime_dir=str(proxy.folder), settings=settings)
        executor.await_event("adopted")
        launched = [executor.await_standstill(1)]
        for turn in range(2, TURNS_HELD + 2):
            proxy.release_one()
            launched.append(executor.await_standstill(turn))
        # A turn that goes out at a standstill asks for the blocks of its next steps and of the look-ahead, and the one
        # behind it, which goes out with the reply to that, need not ask for more.
        assert max(later - earlier for earlier, later in pairwise(launched)) >= depth + look_ahead
        proxy.release()
        executor.await_done()
        world.check_delivered("a", requests)
        world.check_memory()
