"""Who plays which role in the publisher; the worker does without a broker's library, so this stands apart."""

from dependency_injector import containers, providers

from adapters.structlog import PublishLog
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.drain_outbox import Drain
from application.options import PublisherOptions
from application.ports.cancellation import Waiting
from application.ports.identifiers import Identifiers
from application.ports.message_sending import MessageSender
from application.ports.outbox_store import OutboxStore
from application.ports.publish_observation import PublishObservation
from application.publish_outbox import PublishOutboxUseCase
from bootstrap.publisher import Publisher
from bootstrap.sender_factory import make_sender
from bootstrap.settings import Settings
from bootstrap.stop_signal import StopSignal
from bootstrap.store_factory import make_outbox_store


class PublisherContainer(containers.DeclarativeContainer):
    """The publisher, and one that ends when it has drained the outbox."""

    settings = providers.Dependency(instance_of=Settings)

    stop: providers.Provider[Waiting] = providers.Singleton(StopSignal)
    store: providers.Provider[OutboxStore] = providers.Singleton(make_outbox_store, settings, stop)
    sender: providers.Provider[MessageSender] = providers.Singleton(make_sender, settings)
    identifiers: providers.Provider[Identifiers] = providers.Singleton(Uuid7Identifiers)
    observation: providers.Provider[PublishObservation] = providers.Singleton(PublishLog)
    options: providers.Provider[PublisherOptions] = settings.provided.publisher_options.call()

    publish_outbox: providers.Provider[PublishOutboxUseCase] = providers.Singleton(
        PublishOutboxUseCase,
        store=store,
        sender=sender,
        identifiers=identifiers,
        observation=observation,
        cancellation=stop,
        options=options,
    )
    publisher: providers.Provider[Publisher] = providers.Singleton(
        Publisher,
        run=publish_outbox.provided.run,
        stop=stop,
        polling_interval=settings.provided.publish_polling_interval,
    )
    drain: providers.Provider[Drain] = providers.Singleton(
        Drain,
        run=publish_outbox.provided.run,
        store=store,
        stop=stop,
        lease_lasts=publish_outbox.provided.lease_lasts,
    )
