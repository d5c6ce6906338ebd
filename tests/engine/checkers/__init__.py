"""Judges of what processes saw of a store: is a history linearizable, is a feed right?

Independent of the engine's code. `linear.py` searches for an order, `registers.py` is what a store of records must do,
`feed.py` judges what readers of the feed were given, `journal.py` is how processes write down what they saw.
`test_checkers.py` holds wrong histories of every kind, each of which must be found.
"""
