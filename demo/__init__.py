"""The demonstration: real flights through the API, a trigger, a worker, and an account that must come out exact.

`make demo` runs it. `capabilities.py` is also the smallest example of a Django app that brings work to FeltDB's worker.
"""
