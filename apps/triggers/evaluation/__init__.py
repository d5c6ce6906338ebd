"""How changes become work: pure matching, one transaction per batch, one walker per namespace.

compiled   a trigger ready to be tested, and the work a change becomes
standing   where the live triggers of a namespace stand
position   whether store and database belong together
batches    one SQL transaction
walker     read, match, commit, step by step
"""
