"""Where the processes of one machine meet: the folder of sockets and locks."""

import os
from pathlib import Path

from blockmgr.configuration import WrongSetting, settings_file


def default_runtime_dir() -> Path:
    """A folder of the user's own, which goes with the machine's next start."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "pagehold" if base else Path(f"/tmp/pagehold-{os.getuid()}")


def find_runtime_dir(flag: Path | None = None) -> Path:
    """The runtime folder, found as the manager finds it: flag over environment over file over default.

    Raises:
        WrongSetting: the file of settings cannot be read, or names no path.
    """
    # Read even where the flag decides: the manager refuses a file that it cannot read.
    named = settings_file().get("runtime_dir")
    if flag is not None:
        return flag
    # Names of variables count in any case, as they do for the manager's other settings.
    given = {name.lower(): value for name, value in os.environ.items()}.get("pagehold_runtime_dir")
    if given is not None:
        return Path(given)
    if named is None:
        return default_runtime_dir()
    if not isinstance(named, str):
        raise WrongSetting(f"runtime_dir is {named!r}: it must be a path in quotes")
    return Path(named)
