"""How a command ends whose settings are wrong."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def wrong_settings_end() -> Iterator[None]:
    """Where a setting turns out to be wrong, say which, on standard error and to whoever started this process, and exit
    with 78.
    """
    from blockmgr.configuration import WRONG_SETTINGS, WrongSetting
    from blockmgr.notify import say_why_it_ends

    try:
        yield
    except WrongSetting as error:
        say_why_it_ends(str(error))
        typer.echo(str(error), err=True)
        raise typer.Exit(WRONG_SETTINGS) from None
