"""Who plays which role: the one place where the parts are put together."""

from dependency_injector import containers, providers

from adapters.structlog import RunLog
from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.close_idle_activity import CloserUseCase
from application.lanes import Lanes
from application.options import CloserOptions
from application.ports.activity_store import ActivityStore
from application.ports.cancellation import Waiting
from application.ports.identifiers import Identifiers
from application.ports.run_observation import RunObservation
from bootstrap.settings import Settings
from bootstrap.stop_signal import StopSignal
from bootstrap.store_factory import make_store
from bootstrap.worker import Worker


class Container(containers.DeclarativeContainer):
    """The worker. The annotations hold each provider to its port; a test builds all of it."""

    settings = providers.Dependency(instance_of=Settings)

    stop: providers.Provider[Waiting] = providers.Singleton(StopSignal)
    store: providers.Provider[ActivityStore] = providers.Singleton(make_store, settings, stop)
    identifiers: providers.Provider[Identifiers] = providers.Singleton(Uuid7Identifiers)
    observation: providers.Provider[RunObservation] = providers.Singleton(RunLog)
    lanes: providers.Provider[Lanes] = providers.Singleton(Lanes, settings.provided.connections)
    options: providers.Provider[CloserOptions] = settings.provided.closer_options.call()

    closer: providers.Provider[CloserUseCase] = providers.Singleton(
        CloserUseCase,
        store=store,
        identifiers=identifiers,
        observation=observation,
        cancellation=stop,
        options=options,
        lanes=lanes,
    )
    worker: providers.Provider[Worker] = providers.Singleton(
        Worker,
        run=closer.provided.run,
        monotonic=store.provided.clock.monotonic,
        stop=stop,
        polling_interval=settings.provided.polling_interval,
        start_jitter=settings.provided.start_jitter,
    )
