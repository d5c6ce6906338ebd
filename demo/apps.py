"""Django's registration of the demonstration, switched on by FELTDB_APPS=demo."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """An app that only brings capabilities."""

    name = "demo"
    label = "demo"
