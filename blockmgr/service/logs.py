"""Structured logs on standard error."""

import logging
import sys
from typing import Any

import structlog


def configure_logs(level_name: str, log_format: str) -> None:
    """Log from the named level on, for people (``console``) or for programs (``json``)."""
    level = getattr(logging, level_name.upper())
    logging.basicConfig(level=level, stream=sys.stderr, format="%(message)s")
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
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
