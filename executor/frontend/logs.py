"""Structured logs to standard error."""

import logging
import sys
from typing import Any

import structlog

from executor.frontend.settings import DoorSettings


def configure_logs(settings: DoorSettings) -> None:
    """Log from the settings' level on, for people or for programs; every line names the door."""
    level = getattr(logging, settings.log_level.upper())
    logging.basicConfig(level=level, stream=sys.stderr, format="%(message)s")
    # The tokenizer's library has opinions about its arguments, and none about ours.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    structlog.contextvars.bind_contextvars(door=settings.name)
