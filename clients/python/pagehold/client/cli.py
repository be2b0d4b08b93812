"""The `pagehold` command: a root that finds its commands through entry points.

Every part of pagehold registers its commands in the entry-point group `pagehold.commands`, so the client depends on
none of the parts. An entry names a function with typer's annotations, whose docstring is its help, or a `typer.Typer`
for a command with subcommands. The modules named there import nothing but typer at their top; whatever is heavy is
imported when the command runs. That keeps `pagehold --help`, which loads all of them, fast.
"""

import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from pagehold.client.standard_streams import standard_streams

COMMANDS_GROUP = "pagehold.commands"

# The extra of the distribution that a part's own dependencies come with.
_EXTRA_OF_PART = {"bench": "executor", "blockmgr": "manager", "executor": "executor", "kernels": "executor"}


def find_commands() -> dict[str, metadata.EntryPoint]:
    """Return the registered commands by name, in alphabetical order, with none of them loaded."""
    found = metadata.entry_points(group=COMMANDS_GROUP)
    entries = list(found) if found else _commands_of_source_tree()
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        version = metadata.version("pagehold")
    except metadata.PackageNotFoundError:
        version = _source_tree_project()["version"]
    typer.echo(f"pagehold {version}")
    raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Serve language models over gRPC from a paged KV cache that outlives the processes computing with it."""


def build_app(commands: dict[str, metadata.EntryPoint]) -> typer.Typer:
    """Load `commands` and return the root with each of them on it; one that cannot be loaded says so when used."""
    app = typer.Typer(name="pagehold", no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_root)
    for name, entry in commands.items():
        try:
            target = entry.load()
        except Exception as error:
            # Whatever is wrong with one part must not take the others' commands away.
            _add_unavailable(app, entry, error)
            continue
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name)
        else:
            app.command(name)(target)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the command line with `arguments` (by default the process's own), and exit with its status."""
    with standard_streams():
        _run(sys.argv[1:] if arguments is None else arguments)


def _run(arguments: list[str]) -> None:
    commands = find_commands()
    # A command that is named needs no other to be loaded. Help, and the message about a wrong name, need all.
    named = commands.get(arguments[0]) if arguments else None
    app = build_app({named.name: named} if named else commands)
    try:
        app(arguments)
    except ImportError as error:
        if named is None:
            raise
        _exit_with_import_error(named, error)


def _add_unavailable(app: typer.Typer, entry: metadata.EntryPoint, error: Exception) -> None:
    """Put a command in the place of one that could not be loaded; it lists as unavailable and fails when it is run."""
    reason = f"{type(error).__name__}: {error}"

    def unavailable() -> None:
        if isinstance(error, ImportError):
            _exit_with_import_error(entry, error)
        _fail(f"pagehold {entry.name}: {entry.value} cannot be loaded ({reason})")

    takes_anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command(entry.name, help=f"unavailable ({reason})", context_settings=takes_anything)(unavailable)


def _exit_with_import_error(entry: metadata.EntryPoint, error: ImportError) -> NoReturn:
    """Say which extra brings the missing module; raise `error` again where no extra would.

    A module of pagehold itself that is missing is a fault of the code, not of the installation.
    """
    part = entry.module.partition(".")[0]
    missing = (error.name or "").partition(".")[0]
    extra = _EXTRA_OF_PART.get(part)
    if extra is None or missing in {"", "pagehold", *_EXTRA_OF_PART}:
        raise error
    _fail(f"pagehold {entry.name} needs the Python package {missing!r}; install pagehold[{extra}]")


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    sys.exit(1)


def _commands_of_source_tree() -> list[metadata.EntryPoint]:
    """Return the commands of a source tree that is on the path and not installed."""
    registered = _source_tree_project().get("entry-points", {}).get(COMMANDS_GROUP, {})
    return [metadata.EntryPoint(name, value, COMMANDS_GROUP) for name, value in registered.items()]


def _source_tree_project() -> dict[str, Any]:
    path = Path(__file__).parents[4] / "pyproject.toml"
    return tomllib.loads(path.read_text())["project"] if path.exists() else {}
