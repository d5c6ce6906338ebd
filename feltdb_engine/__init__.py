"""FeltDB's storage engine: durable JSON records, atomic transactions and an ordered feed of changes.

Standalone: nothing of Django is imported here. The public names are those listed below.
"""
