"""Where the processes of one machine meet: the folder of sockets and locks."""

import os
from pathlib import Path

from blockmgr.configuration import WrongSetting, shared_sources


def default_runtime_dir() -> Path:
    """A folder of the user's own, which goes with the machine's next start."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "pagehold" if base else Path(f"/tmp/pagehold-{os.getuid()}")


def find_runtime_dir(flag: Path | None = None, process: str = "manager") -> Path:
    """The runtime folder as a kind of process finds it, without its settings: flag over its own variable, over what is
    shared (`shared_sources`), over default. `process` is the name of its table: "manager", "up".

    Raises:
        WrongSetting: the file of settings cannot be read, or names no path.
    """
    # Read even where the flag decides: no process starts with a file that it cannot read.
    shared = shared_sources(process)
    if flag is not None:
        return flag
    # The manager's own variable is the shared one. Names of variables count in any case.
    variables = {name.lower(): value for name, value in os.environ.items()}
    own = None if process == "manager" else variables.get(f"pagehold_{process}_runtime_dir")
    named = next((source["runtime_dir"] for source in shared if "runtime_dir" in source), None) if own is None else own
    if named is None:
        return default_runtime_dir()
    if not isinstance(named, str):
        raise WrongSetting(f"runtime_dir is {named!r}: it must be a path in quotes")
    return Path(named)
