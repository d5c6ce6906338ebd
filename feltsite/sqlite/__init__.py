"""Django's SQLite backend with a fair turn for writers (`base.py`)."""
