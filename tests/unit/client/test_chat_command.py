"""`pagehold chat` against a scripted service."""

import re
import signal
from collections import deque

from pagehold.inference.v1 import server_pb2
from tests.scripted.processes import wait_until
from tests.unit.client.answers import Answer
from tests.unit.client.console import Console, start
from tests.unit.client.scripted_service import ScriptedService
from tests.unit.client.serving import Served
from tests.unit.client.steps import Broken, Held
from tests.unit.client.test_streams import LOST


def roles(service: ScriptedService) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in service.calls[-1][1].prompt.chat.messages]


def test_chat_answers_and_remembers(console: Console, service: ScriptedService) -> None:
    service.answer = Answer(["[b]", "x", "[/b]"])  # no markup of the console's
    printed = console("chat", "--system", "Be brief.", "-t", "0", stdin="Hi\n\nAnd?\n")
    assert len(re.findall(r"\[b]x\[/b]\n3 tokens, the first after \d+\.\d\d s", printed)) == 2
    assert roles(service) == [
        *(("system", "Be brief."), ("user", "Hi"), ("assistant", "[b]x[/b]"), ("user", "And?")),
    ]
    assert service.calls[-1][1].sampling.HasField("temperature")


def test_chat_begins_anew_and_ends(console: Console, service: ScriptedService) -> None:
    printed = console("chat", stdin="Hi\n/reset\n/what\nAgain\n/quit\nNever\n")
    assert printed.count("Paris.") == 2
    assert printed.count("/reset begins anew") == 2
    assert roles(service) == [("user", "Again")]


def test_chat_goes_on_behind_an_answer_that_failed(console: Console, service: ScriptedService) -> None:
    service.script += [Broken(2, LOST)]
    printed = console("chat", stdin="Hi\nAgain\n")
    assert "Par\nno\n" in printed
    assert "Paris." in printed
    assert roles(service) == [("user", "Again")]


def test_chat_needs_a_model_with_a_template(console: Console, service: ScriptedService) -> None:
    plain = server_pb2.Model(name="plain", chat=False)
    service.unary["GetModel"] = deque([server_pb2.GetModelResponse(model=plain)])
    result = console.run("chat")
    assert (result.exit_code, result.stderr.startswith("plain has no chat template")) == (1, True)


def test_interrupting_an_answer_ends_it_and_not_the_chat(served: Served, service: ScriptedService) -> None:
    service.script += [Held(after=2)]
    process = start(served, "chat")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("Hi\n")
    seen = ""
    while not seen.endswith("Par"):
        letter = process.stdout.read(1)
        assert letter, seen
        seen += letter
    process.send_signal(signal.SIGINT)
    wait_until(lambda: service.hung_up == 1, "the server has noticed")
    printed, errors = process.communicate("Again\n/quit\n", timeout=150)
    assert (process.returncode, errors) == (0, "")
    assert printed.startswith("\n1 token, the first after ")
    assert ", stopped\n" in printed
    assert roles(service) == [("user", "Hi"), ("assistant", "Par"), ("user", "Again")]
