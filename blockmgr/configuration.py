"""Settings that more than one program reads: the file of settings, and what it means that a setting is wrong.

Light: nothing but the standard library, since the keeper and `pagehold doctor` read here too.
"""

import errno
import os
import tomllib
from typing import Any

WRONG_SETTINGS = 78
"""Exit code of a process whose settings are wrong (EX_CONFIG of sysexits.h): started again, it would end so again."""

SHARED = ("runtime_dir", "log_level", "log_format")
"""Settings of every process, at the top of the file."""

TABLES = ("manager", "engine", "door", "up")
"""Tables of the file, one for each kind of process."""

_MAY_PASS = frozenset(
    {
        *(errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EAGAIN, errno.EBUSY, errno.EDQUOT, errno.EINTR, errno.EIO),
        *(errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC, errno.ESTALE),
    }
)


class WrongSetting(Exception):
    """A setting that somebody has to mend before another start makes sense.

    The text says which one, what it is, and what it must be; one line for each where several are wrong.
    """


def may_pass(error: OSError) -> bool:
    """Whether an error is one of the moment (no memory, a full disk, a busy port) rather than of what was asked for."""
    return error.errno in _MAY_PASS


def shared_sources(table: str) -> list[dict[str, Any]]:
    """What is given for a process by others means than flags and its own variables, first what counts most: the variables
    that all processes share, its own table of the file, and the top of that.

    Raises:
        WrongSetting: as `settings_file`.
    """
    file = settings_file()
    # Names of variables count in any case, as those of all other settings do.
    variables = {name.lower(): value for name, value in os.environ.items()}
    shared = {name: variables[f"pagehold_{name}"] for name in SHARED if f"pagehold_{name}" in variables}
    return [shared, file.get(table, {}), {name: file[name] for name in SHARED if name in file}]


def settings_file() -> dict[str, Any]:
    """What the TOML file that PAGEHOLD_CONFIG names says; empty where none is named.

    Raises:
        WrongSetting: it is not there, is no TOML, or has at its top what is neither shared nor a table for a process.
    """
    path = os.environ.get("PAGEHOLD_CONFIG")
    if not path:
        return {}
    try:
        with open(path, "rb") as file:
            settings = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise WrongSetting(f"PAGEHOLD_CONFIG is {path!r}, which cannot be read: {error}") from error
    for name, value in settings.items():
        if name in TABLES and not isinstance(value, dict):
            raise WrongSetting(f"{name} is {value!r} in {path}: it must be a table, [{name}]")
        if name not in TABLES and name not in SHARED:
            tables = ", ".join(f"[{table}]" for table in TABLES)
            raise WrongSetting(
                f"{name} is set at the top of {path}, where only {', '.join(SHARED)} may be; "
                f"what concerns one process belongs into its table: {tables}"
            )
    return settings
