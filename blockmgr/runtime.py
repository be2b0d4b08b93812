"""Where the processes of one machine meet: the folder of sockets and locks."""

import os
from pathlib import Path

from blockmgr.configuration import WrongSetting, settings_file


def default_runtime_dir() -> Path:
    """A folder of the user's own, which goes with the machine's next start."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "pagehold" if base else Path(f"/tmp/pagehold-{os.getuid()}")


def find_runtime_dir(flag: Path | None = None, process: str = "manager") -> Path:
    """The runtime folder as a kind of process finds it: flag over its own variable, the shared one, its own table and
    the top of the file, over default. `process` is the name of the table: "manager", "up".

    Raises:
        WrongSetting: the file of settings cannot be read, or names no path.
    """
    # Read even where the flag decides: no process starts with a file that it cannot read.
    file = settings_file()
    if flag is not None:
        return flag
    # Names of variables count in any case, as they do for every other setting. The manager has no prefix of its own.
    variables = {name.lower(): value for name, value in os.environ.items()}
    for variable in (f"pagehold_{process}_runtime_dir" if process != "manager" else "", "pagehold_runtime_dir"):
        if variable in variables:
            return Path(variables[variable])
    named = file.get(process, {}).get("runtime_dir", file.get("runtime_dir"))
    if named is None:
        return default_runtime_dir()
    if not isinstance(named, str):
        raise WrongSetting(f"runtime_dir is {named!r}: it must be a path in quotes")
    return Path(named)
