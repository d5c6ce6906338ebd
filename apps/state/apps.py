"""Records, queries, transactions and the change feed over HTTP: the engine's face."""

from django.apps import AppConfig


class StateConfig(AppConfig):
    """Django's registration of this room."""

    name = "apps.state"
    label = "state"
    verbose_name = "State"
    default_auto_field = "django.db.models.BigAutoField"
