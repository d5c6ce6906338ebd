"""What keeps an instance running: first setup, health, the operators' dashboard."""

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    """Django's registration of this room."""

    name = "apps.operations"
    label = "operations"
    verbose_name = "Operations"
    default_auto_field = "django.db.models.BigAutoField"
