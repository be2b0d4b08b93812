"""The callers' commands, run in this process or in one of their own."""

import subprocess
import sys

import typer
from typer.testing import CliRunner, Result

from pagehold.client import commands
from tests.unit.client.serving import Served

NAMES = ("generate", "chat", "models", "requests", "cancel", "load")


class Console:
    """Runs commands against one server."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._app = typer.Typer()
        self._app.callback()(lambda: None)
        for name in NAMES:
            self._app.command(name)(getattr(commands, name))

    def run(self, *arguments: str, stdin: str = "", address: str | None = None) -> Result:
        environment = {"PAGEHOLD_ADDRESS": address or self.address, "COLUMNS": "200"}
        result = CliRunner().invoke(self._app, list(arguments), env=environment, input=stdin)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return result.stdout


def start(served: Served, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pagehold.client", *arguments, "--address", served.address]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=0)
