"""What a token costs a front door: in CPU time, part by part, and in a whole door before a scripted engine.

    python -m benchmarks.front_door [--json] [--streams 1,16,64] [--tokens 200]

Parts are measured alone, in this process, and the best of some runs counts, since the machine may be busy. The door is a
process of its own; its CPU time between the first token and the last is divided by the tokens delivered. An engine that
computes a step for all streams at once wakes it once a step; the scripted one says of each sequence alone that there is
more, which costs the door more.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from executor.frontend.detokenizer import Detokenizer
from executor.frontend.output import OutputText
from executor.frontend.tokenizer import FastTokenizer
from pagehold.inference.v1 import generation_pb2
from tests.scripted.answers import Answer
from tests.scripted.doors import DoorProcess
from tests.scripted.engine_service import ScriptedEngine
from tests.scripted.scene import PIECES, echo, words
from tests.scripted.tokenizers import write_pieces
from tests.scripted.world import running

RUNS = 7
STOPS = [f"stop string {number}" for number in range(16)]
GEOMETRY = {"device_blocks": 8192, "max_length": 1024}


def best(work: Callable[[], object], tokens: int) -> float:
    """Least CPU time of some runs, in microseconds a token."""
    took = []
    for _ in range(RUNS):
        begun = time.process_time()
        work()
        took.append(time.process_time() - begun)
    return min(took) / tokens * 1e6


def parts(tokenizer: FastTokenizer, text: str) -> dict[str, float]:
    """Microseconds a token of each part of delivering it."""
    ids = tokenizer.encode(text)

    def detokenise() -> None:
        detokenizer = Detokenizer(tokenizer)
        for token in ids:
            detokenizer.push(token)

    def output(stops: list[str]) -> Callable[[], object]:
        def push() -> None:
            text_of = OutputText(tokenizer, stops)
            for token in ids:
                text_of.push((token,))

        return push

    def message() -> None:
        for number, token in enumerate(ids):
            delta = generation_pb2.Delta(output=0, first_token=number, ids=(token,), text=" word")
            event = generation_pb2.GenerationEvent(delta=delta)
            generation_pb2.GenerateResponse(event=event).SerializeToString()

    detokenised, plain = best(detokenise, len(ids)), best(output([]), len(ids))
    return {
        "detokenise": detokenised,
        "stop strings, 1": best(output(STOPS[:1]), len(ids)) - plain,
        "stop strings, 16": best(output(STOPS), len(ids)) - plain,
        "message": best(message, len(ids)),
    }


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def whole(streams: list[int], tokens: int) -> dict[str, dict[str, float]]:
    """A door before a scripted engine: CPU microseconds a token, and tokens a message, for so many streams at once."""
    folder = write_pieces(Path(tempfile.mkdtemp()), PIECES)
    measured = {}
    with (
        running() as world,
        ScriptedEngine(world.runtime_dir, folder, echo, geometry=GEOMETRY) as engine,
        DoorProcess(world.runtime_dir) as door,
    ):
        door.await_serving()
        engine.answer = lambda _: Answer(words(tokens))
        for count in streams:
            engine.limit = 1
            calls = [door.generate(5, stopping={"max_tokens": tokens}) for _ in range(count)]
            for call in calls:
                call.await_tokens(1)
            before = cpu_seconds(door.process.pid)
            engine.limit = None
            deltas = sum(len(call.whole(300).deltas) for call in calls)
            used = cpu_seconds(door.process.pid) - before
            delivered = count * tokens
            measured[str(count)] = {"us_per_token": used / delivered * 1e6, "tokens_per_message": delivered / deltas}
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="1,16,64", help="streams at once")
    parser.add_argument("--tokens", type=int, default=200, help="tokens of each stream")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    from benchmarks.demo_model import demo_file
    from executor.models.loader import model_folder

    tokenizer = FastTokenizer(model_folder(demo_file()))
    text = (Path(__file__).parent.parent / "LICENSE").read_text()
    alone = parts(tokenizer, text)
    door = whole([int(count) for count in options.streams.split(",")], options.tokens)
    if options.json:
        print(json.dumps({"us_per_token": alone, "door": door}))
        return
    for name, value in alone.items():
        print(f"{name:20} {value:8.2f} µs a token")
    for count, figures in door.items():
        print(
            f"{count:>4} streams: {figures['us_per_token']:.0f} µs a token, {figures['tokens_per_message']:.1f} a message"
        )


if __name__ == "__main__":
    main()
