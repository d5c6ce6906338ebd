from feltsite.settings import *  # noqa: F403

INSTALLED_APPS += ["shop"]  # noqa: F405
