"""Files of the runtime directory that others read at any time."""

from pathlib import Path


def write_record(path: Path, text: str) -> None:
    """Write a file anew, so that whoever reads it finds all of it or what was there before. Raises `OSError`."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)
