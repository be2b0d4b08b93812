"""One answer, streamed."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pagehold.client.commands.inference import (
    DOOR,
    Door,
    MaxTokens,
    MinP,
    ModelName,
    Salt,
    Seed,
    Stop,
    Temperature,
    TopK,
    TopP,
    connected,
    plain_of,
)

if TYPE_CHECKING:
    from pagehold.client import CompletionStream, Event, Finished

Prompt = Annotated[str | None, typer.Argument(help='The prompt; "-" reads it from standard input.')]
Ids = Annotated[
    str | None, typer.Option("--ids", help="Token ids in place of a prompt: 1,2,3; @FILE and - read them from there.")
]
AsChat = Annotated[bool, typer.Option("--chat", help="Put the prompt to the model as what a user says in a chat.")]
System = Annotated[str | None, typer.Option("--system", help="What the system says first; implies --chat.")]


def generate(
    prompt: Prompt = None,
    ids: Ids = None,
    chat: AsChat = False,
    system: System = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    min_p: MinP = None,
    seed: Seed = None,
    samples: Annotated[
        int | None, typer.Option("--samples", help="So many samples of the prompt, each printed once it is whole.")
    ] = None,
    beam_width: Annotated[
        int | None, typer.Option("--beam-width", help="Search for the likeliest outputs with so many beams.")
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option("--length-penalty", help="Of a beam search: favours the long, below 0 the short.")
    ] = None,
    early_stopping: Annotated[
        str | None, typer.Option("--early-stopping", help="When a beam search ends: true, false or never.")
    ] = None,
    max_tokens: MaxTokens = None,
    min_tokens: Annotated[int | None, typer.Option("--min-tokens", help="Do not end before so many tokens.")] = None,
    stop: Stop = None,
    stop_token_ids: Annotated[
        list[int] | None, typer.Option("--stop-token-id", help="End at this token. May be repeated.")
    ] = None,
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on at an end-of-sequence token.")] = False,
    cache_salt: Salt = None,
    cache_bypass: Annotated[bool, typer.Option("--cache-bypass", help="Take no cached blocks.")] = False,
    cache_no_store: Annotated[bool, typer.Option("--cache-no-store", help="Leave no blocks for others.")] = False,
    priority: Annotated[int | None, typer.Option("--priority", help="Served earlier the greater; -100 to 100.")] = None,
    model: ModelName = None,
    request_id: Annotated[str | None, typer.Option("--request-id", help="Your own name for the request.")] = None,
    detached: Annotated[bool, typer.Option("--detached", help="It goes on when this command ends.")] = False,
    time_budget: Annotated[
        float | None, typer.Option("--time-budget", help="Seconds after which it ends with what it has.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, help="Seconds after which it fails; without, none.")
    ] = None,
    retry_overload: Annotated[
        bool, typer.Option("--retry-overload", help="Wait for a server that is too busy.")
    ] = False,
    address: Door = DOOR,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Stream the answer to a prompt: its text to standard output, then how fast it came to standard error."""
    given = {
        **_prompt_of(prompt, ids, chat, system),
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
        "n": samples,
        "beam_width": beam_width,
        "length_penalty": length_penalty,
        "early_stopping": _early_stopping_of(early_stopping),
        "max_tokens": max_tokens,
        "min_tokens": min_tokens,
        "stop": stop,
        "stop_token_ids": stop_token_ids,
        "ignore_eos": ignore_eos or None,
        "cache_salt": cache_salt,
        "cache_bypass": cache_bypass or None,
        "cache_no_store": cache_no_store or None,
        "priority": priority,
        "model": model,
        "request_id": request_id,
        "detached": detached or None,
        "time_budget": time_budget,
    }
    with connected(address) as client, client.stream(**given, timeout=timeout, retry_overload=retry_overload) as stream:
        _print(stream, json, whole=(beam_width or samples or 1) > 1)


def _early_stopping_of(text: str | None) -> bool | str | None:
    said: dict[str | None, bool | str | None] = {None: None, "true": True, "false": False, "never": "never"}
    if text not in said:
        raise typer.BadParameter(f"--early-stopping is {text!r}; it is true, false or never")
    return said[text]


def _prompt_of(prompt: str | None, ids: str | None, chat: bool, system: str | None) -> dict[str, Any]:
    """A prompt, ids or messages, as the client takes them."""
    if (prompt is None) == (ids is None):
        raise typer.BadParameter('give a prompt, or "-" to read it from standard input, or --ids')
    if ids is not None:
        if chat or system is not None:
            raise typer.BadParameter("--ids are no part of a chat")
        return {"ids": _ids_of(ids)}
    text = sys.stdin.read() if prompt == "-" else str(prompt)
    if not chat and system is None:
        return {"prompt": text}
    said = [] if system is None else [{"role": "system", "content": system}]
    return {"messages": [*said, {"role": "user", "content": text}]}


def _ids_of(text: str) -> list[int]:
    from pagehold.client.commands.arguments import prompt_of

    return list(prompt_of(text, None, None).ids)


def _print(stream: "CompletionStream", json: bool, whole: bool) -> None:
    """Print what comes as it comes, and last how fast it came. ``whole``: each of several outputs once it has ended, since
    what comes of them comes mixed.
    """
    from pagehold.client import Finished
    from pagehold.client.commands.pace import Pace

    pace, reason = Pace(), ""
    try:
        for event in stream:
            pace.note(event)
            if not whole or json:
                reason = f", {event.reason}" if isinstance(event, Finished) else reason
                _print_event(event, json)
            elif isinstance(event, Finished):
                _print_output(stream, event)
    finally:
        # Whatever ended it: what has come of the text is a line of its own, and the error another.
        if not json and not whole and stream.text and not stream.text.endswith("\n"):
            typer.echo()
    typer.echo(f"{pace}{reason}", err=True)


def _print_output(stream: "CompletionStream", ended: "Finished") -> None:
    """An output under a heading with its number, its seed or its score, and why it ended."""
    text = stream.text_of(ended.output)
    seeds = stream.started.seeds if stream.started is not None else ()
    what = (
        f"seed {seeds[ended.output]}"
        if seeds
        else f"score {ended.score:.4f}"
        if ended.score is not None
        else "unscored"
    )
    heading = f"--- output {ended.output}, {what}: {ended.usage.output_tokens} tokens, {ended.reason}\n"
    sys.stdout.write(heading + text + "\n" * (not text.endswith("\n")))
    sys.stdout.flush()


def _print_event(event: "Event", json: bool) -> None:
    from pagehold.client import Delta
    from pagehold.client.output import print_json

    if json:
        print_json({"event": type(event).__name__.lower(), **plain_of(event)}, compact=True)
    elif isinstance(event, Delta) and event.text:
        # Not through click, which takes what looks like a colour out of what goes to a file.
        sys.stdout.write(event.text)
        sys.stdout.flush()
