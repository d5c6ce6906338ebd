"""The HTTP contract every room shares: envelope, strict JSON, request ids."""

from django.apps import AppConfig


class HttpConfig(AppConfig):
    """Django's registration of this room."""

    name = "apps.http"
    label = "http"
    verbose_name = "HTTP contract"
    default_auto_field = "django.db.models.BigAutoField"
