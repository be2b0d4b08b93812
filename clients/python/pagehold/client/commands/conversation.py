"""A conversation with a model."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagehold.client.commands.inference import (
    DOOR,
    Door,
    MaxTokens,
    MinP,
    ModelName,
    Seed,
    Stop,
    Temperature,
    TopK,
    TopP,
    connected,
)
from pagehold.client.commands.options import fail

if TYPE_CHECKING:
    from rich.console import Console

    from pagehold.client import Client

HELP = "/reset begins anew, /quit ends (so does Ctrl-D), Ctrl-C stops an answer."


def chat(
    system: Annotated[str | None, typer.Option("--system", help="What the system says first.")] = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    max_tokens: MaxTokens = None,
    stop: Stop = None,
    model: ModelName = None,
    address: Door = DOOR,
) -> None:
    """Talk with a model; each answer is streamed, with how fast it came below it."""
    with connected(address) as client:
        described = client.model(model)
        if not described.chat:
            fail(f"{described.name} has no chat template; `pagehold generate` takes a prompt as it is")
        given = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "seed": seed,
            "max_tokens": max_tokens,
            "stop": stop,
            "model": described.name,
        }
        conversation = Conversation(client, system, given)
        conversation.console.print(f"{described.name} at {client.address}. {HELP}", style="dim", highlight=False)
        conversation.run()


class Conversation:
    """What was said, and who says more. What goes wrong with one answer does not end it."""

    def __init__(self, client: "Client", system: str | None, parameters: dict[str, Any]) -> None:
        self.console = _console()
        self._client = client
        self._system = [] if system is None else [{"role": "system", "content": system}]
        self._parameters = parameters
        self._said: list[dict[str, str]] = []

    def run(self) -> None:
        """Ask and answer until the end of input, or /quit."""
        while (line := self._ask()) is not None:
            words = line.strip()
            if words in ("/quit", "/exit"):
                return
            if words == "/reset":
                self._said.clear()
                self._note("Forgotten.")
            elif words.startswith("/"):
                self._note(HELP)
            elif words:
                self._answer(line)

    def _ask(self) -> str | None:
        """What the user says next; None: nothing more. Ctrl-C empties the line."""
        import contextlib

        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - lines can be edited, and earlier ones found again
        while True:
            try:
                return input("> " if sys.stdin.isatty() else "")
            except KeyboardInterrupt:
                self.console.print()
            except EOFError:
                return None

    def _answer(self, line: str) -> None:
        """Stream an answer. What has come of one that was stopped counts as said; one that failed does not."""
        from pagehold.client import PageholdError
        from pagehold.client.commands.pace import Pace

        asked, pace = {"role": "user", "content": line}, Pace()
        stream = self._client.stream(messages=[*self._system, *self._said, asked], **self._parameters)
        ended = ""
        try:
            with stream:
                for event in stream:
                    pace.note(event)
                    # Past the console, which would print a piece again whose printing Ctrl-C came into.
                    sys.stdout.write(getattr(event, "text", ""))
                    sys.stdout.flush()
        except KeyboardInterrupt:
            ended = ", stopped"
        except PageholdError as error:
            ended = "failed"
            self.console.print(f"\n{error}", style="red", highlight=False, markup=False)
        if stream.text and ended != "failed":
            self._said += [asked, {"role": "assistant", "content": stream.text}]
        if ended != "failed":
            self._note(f"\n{pace}{ended}")

    def _note(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False, markup=False)


def _console() -> "Console":
    from rich.console import Console

    # The terminal wraps an answer where it likes: its words come one by one.
    return Console(soft_wrap=True, highlight=False)
