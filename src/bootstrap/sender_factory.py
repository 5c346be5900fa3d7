"""The sender that the settings ask for."""

from adapters.kafka import KafkaSender, PropertyRefused
from application.ports.message_sending import MessageSender
from bootstrap.exit_codes import ExitCode, ExpectedError
from bootstrap.kafka_properties import suggestion
from bootstrap.settings import Settings


def make_sender(settings: Settings) -> MessageSender:
    """Make a sender to Kafka; its brokers need not be there yet.

    Raises ExpectedError (wrong configuration) that names the property which librdkafka, or the sender, does not take.
    """
    try:
        return KafkaSender(settings.required_kafka_properties())
    except PropertyRefused as error:
        meant = suggestion(error.name) if error.name else ""
        raise ExpectedError(f"{error}{meant}", exit_code=ExitCode.WRONG_CONFIGURATION) from None
