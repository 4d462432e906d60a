"""The server's own log without secrets: whatever a logger is given goes through the redactor first."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from interlock.runtime.redaction.redactor import Redactor

_FORMATTER: Final = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Put it on a handler: messages and tracebacks are redacted before they are written."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redactor.diagnostic(record.getMessage()), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = _FORMATTER.formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self._redactor.diagnostic(record.exc_text)
        return True


@contextmanager
def log_without_secrets(redactor: Redactor) -> Iterator[None]:
    """For as long as the block, nothing that is logged holds a secret."""
    hiding, handlers = RedactingFilter(redactor), list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(hiding)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(hiding)
