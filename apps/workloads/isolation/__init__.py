"""Programs in a process of their own: what they do to it costs one attempt, not the worker.

    parent.py   starts the child, answers what it asks, ends it at its limit or when it is to give up
    child.py    `python -m apps.workloads.isolation.child NAME FD`: runs one program once
    wire.py     the messages between the two

The child is spawned, never forked, with no descriptor of ours but its end of a socket pair. It opens no store: reads,
writes and checkpoints go through the parent, under the claim and the grant of the work. It dies with the worker.
"""
