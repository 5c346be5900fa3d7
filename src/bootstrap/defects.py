"""Errors that nobody foresaw."""

from pathlib import Path
from traceback import extract_tb

_FRAMES_SHOWN_MAX = 6


def described_without_its_text(error: Exception) -> str:
    """The type of an error and the way to it, innermost call first.

    Its text is left out: nobody knows what an unknown error quotes, a row with personal data perhaps.
    """
    frames = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {' < '.join(frames[: -_FRAMES_SHOWN_MAX - 1 : -1])}"
