"""What the console pages of every room share: read-only model admins, bounded lists, how instants and JSON are shown.

Not here: the console as a whole (`apps.operations.console`), who is signed in (`apps.keys.console`).
"""
