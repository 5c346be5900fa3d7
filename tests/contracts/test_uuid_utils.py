"""The ids of uuid-utils keep their contract."""

from adapters.uuid_utils.identifiers import Uuid7Identifiers
from application.contracts.identifiers import IdentifiersContract


class TestIdentifiers(IdentifiersContract):
    identifiers = Uuid7Identifiers()
