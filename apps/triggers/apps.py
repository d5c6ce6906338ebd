"""State triggers: definition, matching, evaluation, cursors."""

from django.apps import AppConfig


class TriggersConfig(AppConfig):
    """Django's registration of this room."""

    name = "apps.triggers"
    label = "triggers"
    verbose_name = "Triggers"
    default_auto_field = "django.db.models.BigAutoField"
