"""The server's worker: requests are gathered whole before they get a thread, answers leave without holding one.

framing.py      tells when a whole request has come in; pure
wire.py         the socket as a thread sees it: reads under a deadline, writes that what is slow does not hold up
worker.py       the loop: connections in their states, four pools of threads, refusals of its own
answering.py    what is worked out once instead of for each request and answer
connections.py  what the loop keeps of a connection
errors_only.py  the server's logger, without a line for each request
"""
