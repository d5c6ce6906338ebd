"""One process of the chaos proof: `python -m tests.acceptance.chaos.process <role> <number> <seed>`.

server      serves the API (gunicorn as in production)
evaluator   evaluates triggers until SIGTERM
worker      runs work until SIGTERM; its journal has every claim it was given and every report with its answer
remote      a worker over HTTP, with a key of its own; the same journal, and repeats what it said already
writer      a client: its journal has every change that was acknowledged and should make work
prober      speaks for claims that others have superseded since; its journal has what it was answered
"""

import sys

from tests.acceptance.chaos import clock


def main() -> None:
    """Set the clock up before anything else is imported, then play the role."""
    clock.install()
    role, number, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if role == "server":
        from gunicorn.app.wsgiapp import run

        sys.argv = ["gunicorn", "--config", "feltsite/gunicorn.conf.py", "feltsite.wsgi"]
        run()
    elif role in ("writer", "remote"):
        from tests.acceptance.chaos import remote, writer

        {"writer": writer.play, "remote": remote.play}[role](number, seed)
    else:
        import django

        django.setup()
        from tests.acceptance.chaos import roles

        roles.ROLES[role](number, seed)


if __name__ == "__main__":
    main()
