"""The operators' commands against a real manager: what they print, and what they exit with."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from blockmgr.core.messages import Reservations
from blockmgr.simulation.recorded import read_events
from pagehold.client import commands
from tests.admin_server import AdminServer, Worker, geometry_of
from tests.scripted.processes import wait_until
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import serving

NAMES = (
    *("pool", "executors", "sequences", "sequence", "block", "blocks", "prefixes", "explain", "watch", "verify"),
    *("pin", "unpin", "evict", "resize", "drain", "undrain", "fence"),
)
PROMPT = list(range(16))


def command_line() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    for name in NAMES:
        app.command(name)(getattr(commands, name))
    return app


class Console:
    """Runs commands against one manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.app = command_line()

    def __call__(self, *arguments: str, width: int = 200, code: int = 0, stdin: str = "") -> str:
        """What a command prints; standard error too, where it is to fail."""
        result = self.run(*arguments, width=width, stdin=stdin)
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    def run(self, *arguments: str, width: int = 200, stdin: str = "") -> Result:
        environment = {"PAGEHOLD_ADMIN_ADDRESS": self.address, "COLUMNS": str(width)}
        result = CliRunner().invoke(self.app, list(arguments), env=environment, input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AdminServer]:
    with AdminServer(tmp_path, geometry_of(host_blocks=8, max_device_blocks=64)) as server:
        yield server


@pytest.fixture
def worker(server: AdminServer) -> Worker:
    return server.worker()


@pytest.fixture
def pagehold(server: AdminServer) -> Console:
    return Console(server.address)


# -- looking -----------------------------------------------------------------------------------------------------------


def test_pool_shows_states_use_and_hits(pagehold: Console, worker: Worker) -> None:
    worker.cache(PROMPT)
    worker.prefill([*PROMPT[:8], 90, 91])
    text = pagehold("pool")
    assert "pool       default" in text
    assert "model      toy @ main" in text
    assert "4 tokens, 4.0 KiB" in text
    assert "1 live, 0 orphaned; 15 slots free" in text
    assert "26, 30.77 % found in the cache" in text
    assert "cached                  2     0" in text


def test_pool_lists_the_pools_where_none_is_named(pagehold: Console, server: AdminServer) -> None:
    server.worker(pool="alpha")
    server.worker(pool="beta")
    assert [line.split()[0] for line in pagehold("pool").splitlines()[1:3]] == ["alpha", "beta"]
    assert "pool       beta" in pagehold("pool", "beta")
    assert pagehold.json("pool", "--pool", "alpha")["stats"]["name"] == "alpha"
    assert [one["name"] for one in pagehold.json("pool")["pools"]] == ["alpha", "beta"]


def test_without_a_pool_every_command_fails_alike(pagehold: Console) -> None:
    for arguments in (["pool"], ["pool", "--json"], ["executors"], ["sequences"]):
        assert pagehold(*arguments, code=1) == "there is no pool yet: the first executor that registers makes one\n"


def test_executors_show_who_computes_how_far(pagehold: Console, worker: Worker) -> None:
    (one,) = worker.admit(PROMPT)
    worker.launch({one.handle: 16}, complete=False)
    header, row = pagehold("executors").splitlines()
    assert header.split()[:6] == ["executor", "state", "epoch", "sequences", "blocks", "step"]
    assert row.split()[:6] == ["engine-0", "live", str(worker.epoch), "1", "4", "0/1"]
    assert f"{worker.process.pid} engine" in row


def test_sequences_are_listed_up_to_the_limit_and_the_rest_is_counted(pagehold: Console, worker: Worker) -> None:
    assert pagehold("sequences").strip() == "No sequences."
    handles = worker.prefill(*([number] * 5 for number in range(5)))
    text = pagehold("sequences", "--limit", "2")
    assert [line.split()[0] for line in text.splitlines()[1:3]] == [str(handle) for handle in handles[:2]]
    assert "2 of 5 sequences; --limit shows more." in text
    assert [one["handle"] for one in pagehold.json("sequences")["sequences"]] == handles


def test_a_narrow_terminal_gets_fewer_columns_and_no_line_that_does_not_fit(pagehold: Console, worker: Worker) -> None:
    (handle,) = worker.prefill(PROMPT)
    for arguments in (("sequences",), ("sequence", str(handle)), ("blocks",), ("executors",), ("pool",), ("prefixes",)):
        wide, narrow = pagehold(*arguments, width=160), pagehold(*arguments, width=64)
        assert max(map(len, narrow.splitlines())) <= 64, arguments
        assert len(narrow.splitlines()) <= len(wide.splitlines()) + 2, arguments


def test_a_sequence_draws_its_block_table(pagehold: Console, worker: Worker) -> None:
    (handle,) = worker.prefill(PROMPT[:10])
    worker.turn(reservations=Reservations(np.array([handle]), np.array([14]), np.array([0])))
    text = pagehold("sequence", str(handle), "--ids")
    assert "tokens    10 recorded: 10 of prompt, 0 of output" in text
    drawn = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()][:4]
    assert [(line[2], line[4], line[5]) for line in drawn] == [
        ("sealed", "████████", "0-3"),
        ("sealed", "████████", "4-7"),
        ("owned", "████····", "8-9"),
        ("owned", "········", "reserved"),
    ]
    assert text.rstrip().endswith("0 1 2 3 4 5 6 7 8 9")


def test_a_sequence_is_named_by_handle_or_uuid_and_found_when_it_has_ended(pagehold: Console, worker: Worker) -> None:
    (handle,) = worker.prefill(PROMPT)
    uuid = pagehold.json("sequence", str(handle))["live"]["uuid"]
    assert pagehold.json("sequence", uuid.replace("-", "").upper())["live"]["handle"] == handle
    worker.finish(handle)
    assert "finished: stop" in pagehold("sequence", uuid)
    assert "no sequence has the handle" in pagehold("sequence", str(handle), code=1)


def test_a_block_shows_its_holders_and_its_last_events(pagehold: Console, worker: Worker) -> None:
    (handle,) = worker.prefill(PROMPT)
    block = pagehold.json("sequence", str(handle))["table"][0]["block"]
    text = pagehold("block", str(block))
    assert f"entry 0 of sequence {handle}" in text
    assert "token ids   0 1 2 3" in text
    assert [line.split()[2] for line in text.split("last events\n")[1].splitlines()] == ["admitted", "sealed"]
    assert "Nothing holds it." in pagehold("block", "host:3")


def test_a_fenced_block_says_what_it_waits_for(pagehold: Console, worker: Worker) -> None:
    (one,) = worker.admit(PROMPT[:6])
    worker.launch({one.handle: 6}, complete=False)
    worker.finish(one.handle)
    (block,) = pagehold.json("blocks", "--filter", "state=fenced")["blocks"]
    text = pagehold("block", str(block["id"]["block"]))
    assert "waits for step 1 of engine-0, which has completed 0" in text


def test_blocks_are_filtered_by_several_conditions(pagehold: Console, worker: Worker) -> None:
    (handle,) = worker.prefill(PROMPT[:9])
    worker.cache(list(range(50, 59)))
    table = [entry["block"] for entry in pagehold.json("sequence", str(handle))["table"]]
    uuid = pagehold.json("sequence", str(handle))["live"]["uuid"]

    def numbers(*conditions: str) -> list[int]:
        flags = [part for condition in conditions for part in ("--filter", condition)]
        return [one["id"]["block"] for one in pagehold.json("blocks", *flags)["blocks"]]

    assert numbers(f"sequence={uuid}") == numbers(f"sequence={handle}") == numbers("refs>=1") == table
    assert len(numbers("state=cached", "refs=0", "indexed=yes")) == 2
    assert numbers("state=sealed,owned", "refs <= 1", "pinned=no") == table
    assert numbers("tier=host", "state=cached") == []


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("state", "no condition"),
        ("state=molten", "'molten' is none of free, null"),
        ("colour=red", "there is no condition 'colour'"),
        ("pinned>=1", ">= is for refs only"),
        ("refs=many", "must be a number"),
        ("pinned=maybe", "must be yes or no"),
        ("tier=disk", "'disk' is no tier"),
    ],
)
def test_a_condition_that_cannot_be_read_is_explained(
    pagehold: Console, worker: Worker, condition: str, text: str
) -> None:
    assert text in pagehold("blocks", "--filter", condition, code=2)


def test_prefixes_are_a_tree_of_runs(pagehold: Console, worker: Worker) -> None:
    assert pagehold("prefixes").strip() == "Nothing is cached."
    worker.cache([*PROMPT, 1])
    worker.cache([*PROMPT[:8], 90, 91, 92, 93, 94])
    lines = pagehold("prefixes").splitlines()
    assert len(lines) == 4
    assert "2 cached" in lines[1]
    assert "8 tokens: 0 1 2 3 4 5 6 7" in lines[1]
    assert {line.split(":")[1].strip() for line in lines[2:]} == {"8 9 10 11 12 13 14 15", "90 91 92 93"}
    assert "The first 2 blocks; --limit shows more." in pagehold("prefixes", "--limit", "2")


def test_explain_says_how_much_is_cached_and_why_not_more(pagehold: Console, worker: Worker, tmp_path: Path) -> None:
    worker.cache([*PROMPT[:8], 1])
    text = pagehold("explain", " ".join(map(str, PROMPT)))
    assert "8 of 16 tokens would be taken from the cache" in text
    assert [line.split()[:2] for line in text.splitlines()[3:6]] == [
        ["0-1", "hit"],
        ["2", "never-seen"],
        ["3", "always-computed"],
    ]
    assert "cached under another salt" in text
    file = tmp_path / "ids.json"
    file.write_text(json.dumps(PROMPT))
    assert pagehold("explain", f"@{file}") == text
    assert pagehold("explain", "-", stdin=",".join(map(str, PROMPT))) == text


def test_explain_has_a_front_door_say_what_the_tokens_of_a_text_are(pagehold: Console, worker: Worker) -> None:
    worker.cache([*map(ord, "abcdefgh"), 1])
    with serving(ScriptedService()) as door:
        text = pagehold("explain", "abcdefghij", "--door", door.address)
    assert "8 of 10 tokens would be taken from the cache" in text


def test_explain_names_the_sequence_that_fills_a_block(pagehold: Console, worker: Worker) -> None:
    (one,) = worker.admit(PROMPT)
    worker.launch({one.handle: 8}, complete=False)
    text = pagehold("explain", ",".join(map(str, PROMPT)))
    assert f"a launched step is filling it: others wait, its own executor may use it; sequence {one.handle}" in text
    assert "expected" in text


def test_verify_exits_with_one_where_an_invariant_is_broken(
    pagehold: Console, worker: Worker, server: AdminServer
) -> None:
    worker.prefill(PROMPT)
    assert "all invariants hold" in pagehold("verify")

    def damage() -> None:
        server.pool.state.blocks.refs.flat[1] += 1

    server.on_loop(damage)
    text = pagehold("verify", code=1)
    assert "invariant 2: " in text
    broken = pagehold.run("verify", "--json")
    assert broken.exit_code == 1
    assert json.loads(broken.stdout)["violations"][0]["invariant"] == 2


# -- watching ----------------------------------------------------------------------------------------------------------


def test_watch_prints_lines_that_a_replay_reads(pagehold: Console, worker: Worker, server: AdminServer) -> None:
    worker.cache(PROMPT)
    count = server.on_loop(lambda: server.pool.revision)
    text = pagehold("watch", "--since", "0", "--count", str(count), "--json")
    events = list(read_events(text.splitlines(), "watch"))
    assert [event.revision for event in events] == list(range(1, count + 1))
    admitted = next(json.loads(line) for line in text.splitlines() if '"admitted"' in line)
    assert set(admitted) == {
        *("kind", "handle", "uuid", "executor", "blocks", "tokens", "detail", "revision", "time"),
    }
    assert len(admitted["blocks"]) == 4
    assert len(bytes.fromhex(admitted["uuid"])) == 16


def test_watch_can_begin_with_a_snapshot_and_keep_to_some_kinds(
    pagehold: Console, worker: Worker, server: AdminServer
) -> None:
    worker.cache(PROMPT)
    text = pagehold("watch", "--since", "0", "--kind", "cached", "--count", "1")
    assert text.split()[2] == "cached"
    lines: list[Any] = []

    def follow() -> None:
        output = pagehold("watch", "--snapshot", "--count", "1", "--json")
        lines.extend(json.loads(line) for line in output.splitlines())

    wait_until(lambda: not server.on_loop(lambda: len(server.manager.watchers)), "nobody watches any more")
    thread = threading.Thread(target=follow)
    thread.start()
    wait_until(lambda: server.on_loop(lambda: len(server.manager.watchers)) == 1, "it watches")
    server.on_loop(lambda: server.pool.drain(True))
    thread.join(60)
    assert lines[0]["kind"] == "snapshot"
    assert lines[0]["stats"]["name"] == "default"
    assert lines[-1]["kind"] == "draining"


def test_watch_says_what_it_missed(pagehold: Console, worker: Worker, server: AdminServer) -> None:
    worker.cache(PROMPT)
    last = server.on_loop(lambda: server.pool.revision)

    def forget() -> None:
        while len(server.pool.state.events._kept) > 1:
            server.pool.state.events._kept.popleft()

    server.on_loop(forget)
    result = pagehold.run("watch", "--since", "0", "--count", "1")
    assert f"revisions 1 to {last - 1} are not kept any more and were missed" in result.stderr
    first, second = pagehold("watch", "--since", "0", "--count", "1", "--json").splitlines()
    assert json.loads(first) == {"kind": "missed", "from": 1, "to": last - 1}
    assert json.loads(second)["revision"] == last


# -- changing ----------------------------------------------------------------------------------------------------------


def test_a_prompt_is_pinned_listed_and_unpinned(pagehold: Console, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    ids = ",".join(map(str, PROMPT))
    assert pagehold("pin").strip() == "Nothing is pinned."
    text = pagehold("pin", "--prompt", ids, "--ttl", "90m", "--label", "system")
    assert "1 h 29 min left, 16 tokens of the prompt" in text
    (row,) = pagehold("pin").splitlines()[1:]
    assert row.split()[:2] == ["1", "system"]
    assert "0 device blocks and 0 host blocks; 4 cached ones stay" in pagehold("evict", "--all")
    assert "ended 1 'system'" in pagehold("unpin", "--label", "system")
    assert "no pin has the label 'system'; there are: none" in pagehold("unpin", "--label", "system", code=1)
    assert "evicted 4 device blocks" in pagehold("evict", "--all")


def test_a_block_is_pinned_by_number_and_generation(pagehold: Console, worker: Worker) -> None:
    worker.cache([*PROMPT, 1])
    one = pagehold.json("blocks", "--filter", "state=cached")["blocks"][0]
    number = str(one["id"]["block"])
    assert "was expected" in pagehold("pin", number, "--generation", str(one["generation"] + 1), code=1)
    assert pagehold.json("pin", number, "--generation", str(one["generation"]))["pin"]["blocks"] == [one["id"]]
    assert "only SEALED and CACHED blocks can be pinned" in pagehold("pin", "0", code=1)


def test_evict_takes_blocks_a_count_or_all_and_only_one_of_them(pagehold: Console, worker: Worker) -> None:
    (handle,) = worker.prefill([*PROMPT, 1])
    worker.cache(list(range(50, 63)))
    used = pagehold.json("sequence", str(handle))["table"][0]["block"]
    cached = [one["id"]["block"] for one in pagehold.json("blocks", "--filter", "state=cached")["blocks"]]
    text = pagehold("evict", str(used), str(cached[0]), "--dry-run")
    assert f"would evict 1 blocks: {cached[0]}" in text
    assert f"block {used} stays sealed: 1 table entries name it" in text
    assert "evicted 1 blocks" in pagehold("evict", "--count", "1")
    assert "evicted 2 device blocks" in pagehold("evict", "--all", "--tier", "device")
    assert "name blocks, or give --count, or --all" in pagehold("evict", code=2)
    assert "name blocks, or give --count, or --all" in pagehold("evict", "3", "--all", code=2)


def test_a_pool_is_resized_in_blocks_or_bytes(pagehold: Console, worker: Worker) -> None:
    assert "32 -> 48 device blocks" in pagehold("resize", "48")
    assert "48 -> 64 device blocks" in pagehold("resize", "256KiB")
    assert "device_blocks is 4096, but must lie in 2..64" in pagehold("resize", "4096", code=1)
    assert f"device_blocks is {(1 << 32) - 1}, but must lie in 2..64" in pagehold("resize", "9" * 20 + "GiB", code=1)
    assert "is no size" in pagehold("resize", "big", code=2)


def test_resize_waits_until_executors_have_moved_what_is_beyond(
    pagehold: Console, worker: Worker, server: AdminServer
) -> None:
    handles = worker.prefill(*([number] * 40 for number in range(3)))
    worker.finish(*handles[:-1])
    outcome: list[str] = []
    thread = threading.Thread(target=lambda: outcome.append(pagehold("resize", "16", "--wait")))
    thread.start()
    wait_until(lambda: server.on_loop(lambda: server.pool.state.capacity) == 16, "the pool is smaller")
    assert not outcome
    tickets = worker.turn().tickets
    assert tickets
    worker.turn(tickets_done=np.array([ticket.id for ticket in tickets]))
    thread.join(60)
    assert outcome == ["32 -> 16 device blocks\n"]


def test_draining_names_an_executor_or_the_pool(pagehold: Console, worker: Worker) -> None:
    worker.prefill(PROMPT)
    assert "draining engine-0: 1 sequences are still alive" in pagehold("drain", "engine-0")
    assert "live, draining" in pagehold("executors")
    assert f"{worker.epoch} admits again" in pagehold("undrain", str(worker.epoch))
    assert "draining" not in pagehold("executors")
    assert pagehold.json("drain")["sequences"] == 1
    assert "draining: admits nothing new" in pagehold("pool")
    assert "the pool admits again" in pagehold("undrain")
    assert "there is no executor 'nobody'; there are: engine-0" in pagehold("drain", "nobody", code=1)


def test_an_executor_is_fenced_by_name(pagehold: Console, worker: Worker) -> None:
    assert "engine-0 is fencing; processes killed: 1" in pagehold("fence", "engine-0", "--why", "test")
    assert worker.process.wait(60) == -9
    assert "no executor of this pool has the epoch 7" in pagehold("fence", "7", code=1)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["pool"], ["watch"], ["evict", "--all"], ["explain", "1,2"]])
def test_a_manager_that_is_not_there_is_one_line_and_how_to_start_it(arguments: list[str], tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'none.sock'}"
    text = Console(address)(*arguments, code=1)
    start = f"no block manager answers at {address}: start one with `pagehold keeper`, or give its --address\n"
    assert text == start


def test_something_else_that_answers_is_told_from_a_manager(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'other.sock'}"
    other = grpc.server(ThreadPoolExecutor(1))
    other.add_insecure_port(address)
    other.start()
    try:
        text = Console(address)("pool", code=1)
    finally:
        other.stop(None)
    assert text.startswith(f"what answers at {address} is no block manager, or one of another version")


def test_a_manager_that_does_not_answer_in_time_is_said_to(
    pagehold: Console, worker: Worker, server: AdminServer
) -> None:
    stuck, release = threading.Event(), threading.Event()

    def hold() -> None:
        stuck.set()
        release.wait(60)

    holder = threading.Thread(target=lambda: server.on_loop(hold))
    holder.start()
    stuck.wait(60)
    try:
        text = pagehold("verify", "--timeout", "0.3", code=1)
    finally:
        release.set()
        holder.join()
    assert text == f"the block manager at {server.address} did not answer within 0.3 s\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["sequence", "zz"], "'zz' is neither a handle nor a UUID"),
        (["block", "disk:3"], "'disk:3' is no block"),
        (["pin", "--prompt", "1,two"], "'two' is no token id"),
        (["explain", "@/does/not/exist"], "/does/not/exist cannot be read"),
        (["watch", "--since", "1", "--snapshot"], "either --since or --snapshot"),
        (["watch", "--kind", "exploded"], "'exploded' is none of registered"),
        (["pin", "1", "--prompt", "1,2"], "either a block or --prompt"),
        (["pin", "1", "--ttl", "soon"], "'soon' is no time"),
        (["unpin"], "name a pin by its number"),
        (["sequences", "--residency", "moon"], "'moon' is none of device"),
    ],
)
def test_what_cannot_be_read_is_explained(pagehold: Console, worker: Worker, arguments: list[str], text: str) -> None:
    assert text in pagehold(*arguments, code=2)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["pin", "--label", "x"], "--label means nothing without a block or --prompt"),
        (["pin", "--ttl", "1h"], "--ttl means nothing without a block or --prompt"),
        (["pin", "--prompt", "1,2", "--generation", "3"], "--generation means nothing without a block"),
        (["pin", "1", "--salt", "x"], "--salt means nothing without --prompt"),
        (["pin", "--adapter", "x"], "--adapter means nothing without --prompt"),
        (["evict", "1", "--tier", "host"], "--tier means nothing without --count or --all"),
        (["pool", "default", "--pool", "other"], "either default or --pool other, not both"),
        (["blocks", "--filter", "tier=host", "--filter", "tier=device"], "tier is given already"),
    ],
)
def test_no_option_is_passed_over(pagehold: Console, worker: Worker, arguments: list[str], text: str) -> None:
    assert text in pagehold(*arguments, code=2)


def test_several_pools_are_not_watched_under_no_name(pagehold: Console, server: AdminServer) -> None:
    server.worker(pool="alpha")
    server.worker(pool="beta")
    assert "--every means nothing without the name of one of the pools" in pagehold("pool", "--every", "1", code=2)
