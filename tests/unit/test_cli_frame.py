"""The root of the command line: how commands are found, loaded, listed and refused."""

import subprocess
import sys
import textwrap
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer

from pagehold.client import cli

ROOT = Path(__file__).parents[2]
HEAVY = {"google.protobuf", "grpc", "numpy", "prometheus_client", "pydantic", "structlog", "torch", "uvloop"}


def command(name: str, value: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, value, cli.COMMANDS_GROUP)}


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file importable as `somepart`, to hold commands."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "somepart", raising=False)
    return tmp_path / "somepart.py"


def run(monkeypatch: pytest.MonkeyPatch, commands: dict[str, EntryPoint], *arguments: str) -> int:
    """Run the command line with `commands` registered; return its exit status."""
    monkeypatch.setattr(cli, "find_commands", lambda: commands)
    with pytest.raises(SystemExit) as exit_:
        cli.main(list(arguments))
    return int(exit_.value.code or 0)


def test_every_registered_command_loads() -> None:
    for name, entry in cli.find_commands().items():
        target = entry.load()
        assert callable(target), name
        assert isinstance(target, typer.Typer) or target.__doc__, f"{name} has no docstring, which would be its help"


def test_help_lists_every_registered_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = cli.find_commands()
    assert {"pool", "sequence", "fence", "blockmgr", "keeper", "simulate", "doctor"} <= commands.keys()
    assert run(monkeypatch, commands, "--help") == 0
    listed = {line.split()[1] for line in capsys.readouterr().out.splitlines() if len(line.split()) > 2}
    assert commands.keys() <= listed


def test_help_imports_nothing_heavy() -> None:
    script = f"""
        import sys
        from pagehold.client.cli import main
        try:
            main(["--help"])
        except SystemExit:
            print(sorted({HEAVY!r} & sys.modules.keys()), file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_function_becomes_a_command(
    part: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part.write_text(
        textwrap.dedent("""
            def hello(name: str, loud: bool = False) -> None:
                '''Greet.'''
                print("HELLO" if loud else "hello", name)
        """)
    )
    assert run(monkeypatch, command("hello", "somepart:hello"), "hello", "you", "--loud") == 0
    assert capsys.readouterr().out == "HELLO you\n"


def test_a_typer_becomes_a_command_with_subcommands(
    part: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part.write_text(
        textwrap.dedent("""
            import typer
            app = typer.Typer()
            @app.command()
            def first() -> None:
                print("one")
            @app.command()
            def second() -> None:
                print("two")
        """)
    )
    assert run(monkeypatch, command("count", "somepart:app"), "count", "second") == 0
    assert capsys.readouterr().out == "two\n"


def test_a_named_command_loads_no_other(part: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part.write_text("def ok() -> None:\n    '''Do nothing.'''")
    commands = command("ok", "somepart:ok") | command("other", "json.tool:main")
    monkeypatch.delitem(sys.modules, "json.tool", raising=False)
    assert run(monkeypatch, commands, "ok") == 0
    assert "json.tool" not in sys.modules


def test_an_unknown_command_is_named_with_its_nearest_match(
    part: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part.write_text("def pool() -> None:\n    '''Show a pool.'''")
    assert run(monkeypatch, command("pool", "somepart:pool"), "pol") == 2
    message = capsys.readouterr().err
    assert "'pol'" in message
    assert "'pool'" in message


def test_a_missing_package_names_the_extra_that_brings_it(
    part: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part.write_text("def work() -> None:\n    '''Work.'''\n    import absent_package.inner")
    monkeypatch.setitem(cli._EXTRA_OF_PART, "somepart", "manager")
    assert run(monkeypatch, command("work", "somepart:work"), "work") == 1
    assert "needs the Python package 'absent_package'; install pagehold[manager]" in capsys.readouterr().err


def test_a_missing_module_of_pagehold_is_raised_not_blamed_on_the_installation(
    part: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part.write_text("def work() -> None:\n    '''Work.'''\n    import somepart.absent")
    monkeypatch.setitem(cli._EXTRA_OF_PART, "somepart", "manager")
    monkeypatch.setattr(cli, "find_commands", lambda: command("work", "somepart:work"))
    with pytest.raises(ModuleNotFoundError, match=r"somepart\.absent"):
        cli.main(["work"])


def test_a_part_that_cannot_be_loaded_is_listed_as_unavailable_beside_the_others(
    part: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part.write_text("def ok() -> None:\n    '''Do nothing.'''")
    commands = command("ok", "somepart:ok") | command("broken", "somepart:absent")
    assert run(monkeypatch, commands, "--help") == 0
    listing = capsys.readouterr().out
    assert "Do nothing." in listing
    assert "unavailable (AttributeError" in listing


def test_a_command_that_cannot_be_loaded_fails_with_the_reason_whatever_its_arguments(
    part: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part.write_text("")
    assert run(monkeypatch, command("broken", "somepart:absent"), "broken", "--some", "thing") == 1
    assert "somepart:absent cannot be loaded (AttributeError" in capsys.readouterr().err


def test_a_source_tree_that_is_not_installed_has_the_same_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {name: entry.value for name, entry in cli.find_commands().items()}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    assert {name: entry.value for name, entry in cli.find_commands().items()} == installed


def test_version_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, {}, "--version") == 0
    assert capsys.readouterr().out == f"pagehold {cli._source_tree_project()['version']}\n"


def test_no_init_file_closes_the_pagehold_namespace() -> None:
    assert not list(ROOT.glob("protos/pagehold/__init__.py")) + list(ROOT.glob("clients/python/pagehold/__init__.py"))
