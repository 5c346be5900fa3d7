"""Making a producer of librdkafka, or saying in one line which property keeps it from being made."""

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Producer

from adapters.kafka.properties import PropertyRefused, allowed_values_of, is_silent, without_secrets


class _Nowhere:
    """Takes the lines of librdkafka's log, as a logger does."""

    def log(self, *line: object) -> None:
        """Writes nothing."""


def make_producer(properties: Mapping[str, str], *, on_trouble: Callable[[KafkaError], None]) -> Producer:
    """A producer, which connects by itself as soon as it can; `on_trouble` hears of errors of its connections.

    librdkafka's own log goes nowhere, unless the properties ask for it: then it goes to stderr in librdkafka's format.

    Raises PropertyRefused.
    """
    try:
        return _new(properties, on_trouble)
    except (KafkaException, ImportError, ValueError) as error:
        raise _refusal(error, properties) from None


def _new(properties: Mapping[str, str], on_trouble: Callable[[KafkaError], None]) -> Producer:
    # Fatal errors are logged at level 0, which cannot be kept off stderr otherwise.
    log = {"logger": _Nowhere()} if is_silent(properties) else {}
    return Producer({**properties, **log, "error_cb": on_trouble})


def _refusal(error: Exception, properties: Mapping[str, str]) -> PropertyRefused:
    text = _text_of(error)
    name = _culprit(text, properties)
    allowed = allowed_values_of(name) if name else None
    reason = " ".join(without_secrets(text, properties).removeprefix("Failed to create producer: ").split())
    return PropertyRefused(name, f"{reason}; allowed: {allowed}" if allowed else reason)


def _text_of(error: Exception) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(cause)


def _culprit(text: str, properties: Mapping[str, str]) -> str | None:
    """Which property it is: one that fails alone with the same words, or that is named, or whose value is quoted.

    librdkafka names the first of several that do not go together, and not always as the user does.
    """
    for name, value in properties.items():
        try:
            Producer({name: value, "logger": _Nowhere()})
        except (KafkaException, ImportError, ValueError) as error:
            if _text_of(error) == text:
                return name
    named = [name for name in properties if name in text]
    quoted = [name for name, value in properties.items() if f" {value}" in text]
    return next(iter([*sorted(named, key=text.index), *quoted]), None)
