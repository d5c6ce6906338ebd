"""Django's admin, registered with our site in place of its own."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    """`admin.site` everywhere is `ConsoleSite`."""

    default_site = "apps.operations.console.site.ConsoleSite"
