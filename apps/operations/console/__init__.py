"""The operators' console: Django's admin as one site of our own, with pages that belong to no single model.

Model pages are in each room's `admin.py`; what they share is in `apps.http.pages` and `apps.keys.console`.
"""
