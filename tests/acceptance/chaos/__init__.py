"""What the chaos proof runs beside the test itself: processes with journals of their own, and the program they run.

    crew.py          starts, kills, stops and continues the processes; sets the host's clock
    process.py       one process: sets its clock up, then plays its role
    roles.py         evaluator, worker and prober, inside FeltDB; remote.py, writer.py: clients over HTTP
    capabilities.py  the program that workers run
    clock.py         a host's clock that can be set while processes run
    journal.py       what each process writes down
    account.py       what the journals say

It is a Django app only so that its `capabilities.py` is found.
"""
