"""Durable work: the state machine, claims and leases, capabilities, the worker loop."""

from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Django's registration of this room."""

    name = "apps.workloads"
    label = "workloads"
    verbose_name = "Workloads"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what can be run: the built-in programs and every installed app's own."""
        from apps.workloads.capabilities import autodiscover

        autodiscover()
