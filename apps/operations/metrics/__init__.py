"""Metrics as Prometheus reads them: what was counted (`apps/http/measures.py`), and what is true at the scrape.

truth.py        gauges computed at scrape time from database, stores and health
exposition.py   both as one text
"""
