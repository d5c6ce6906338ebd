"""API keys, principals, scopes, namespaces and operators."""

from django.apps import AppConfig


class KeysConfig(AppConfig):
    """Django's registration of this room."""

    name = "apps.keys"
    label = "keys"
    verbose_name = "Keys"
    default_auto_field = "django.db.models.BigAutoField"
