"""Messages get lost, late or held back between executors and manager."""

from tests.scripted import workload
from tests.scripted.hand import HandDriven
from tests.scripted.processes import wait_until
from tests.scripted.proxy import Proxy
from tests.scripted.world import World, running


def proxied(world: World, **losses: float) -> Proxy:
    """A proxy of this world's manager."""
    return Proxy(world.runtime_dir, world.directory / "proxy", seed=1, **losses)


def await_turns(world: World, count: int) -> None:
    """Wait until so many more turns have been exchanged."""
    before = world.statistics().counters.turns
    wait_until(lambda: world.statistics().counters.turns > before + count, "turns are exchanged")


def test_replies_and_turns_lost_at_random_lose_no_token_and_repeat_none() -> None:
    requests = workload.mixed(50, 60)
    with running() as world, proxied(world, lose_request=0.05, lose_reply=0.1) as proxy:
        world.start_executor("a", requests, runtime_dir=str(proxy.folder)).await_done(120)
        assert proxy.lost > 20
        assert world.statistics().counters.repeated_turns > 10, "turns whose replies were lost came again"
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
    requests = workload.plain(51, 8, prompt=6, output=200)
    with running() as world, proxied(world) as proxy:
        settings = {"look_ahead": look_ahead, "depth": depth}
        executor = world.start_executor(
            "a", requests, runtime_dir=str(proxy.folder), settings=settings, mean_seconds=0.003
        )
        executor.await_event("adopted")
        # What was in flight when a turn that is held back went out had used some of the look-ahead already, and more of it
        # where the turn before was slow: a few are held, of which one has it whole.
        for _ in range(5):
            await_turns(world, 20)
            proxy.hold()
            wait_until(executor.is_waiting, "it has used up what it has")
            proxy.release()
        done = executor.await_done()
        assert done["most_steps_in_a_turn"] >= look_ahead - depth
        world.check_delivered("a", requests)
        world.check_memory()
