"""What a door logs, and how."""

import logging

import structlog

from blockmgr.service.logs import configure_logs as configure
from executor.frontend.settings import DoorSettings


def configure_logs(settings: DoorSettings) -> None:
    """Log as the settings say; every line names the door."""
    configure(settings.log_level, settings.log_format)
    # The tokenizer's library has opinions about its arguments, and none about ours.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    structlog.contextvars.bind_contextvars(door=settings.name)
