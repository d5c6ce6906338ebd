# FeltDB: server and worker in one container, since they share memory-mapped files and must share one PID namespace.
# One writable volume, /data; runs as a user without rights; everything else may be read-only:
#   docker build -t feltdb . && docker run --read-only --tmpfs /tmp -v feltdb:/data -p 127.0.0.1:8000:8000 feltdb
FROM python:3.11-slim

# pg_dump and pg_restore, for backups of a control plane on PostgreSQL; of the server's version or a newer.
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql-client && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin feltdb \
    && install --directory --owner feltdb --mode 0700 /data
WORKDIR /app
COPY requirements.txt .
RUN python -m venv .venv && .venv/bin/pip install --no-cache-dir --disable-pip-version-check -r requirements.txt
COPY . .

ENV FELTDB_DATA_DIR=/data HOST=0.0.0.0 PORT=8000 LOG_FORMAT=json PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER feltdb
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=6s --start-period=60s CMD [".venv/bin/python", "deploy/healthcheck.py"]
STOPSIGNAL SIGTERM
# The first start prints the operator's password and the first key, once.
CMD ["sh", "-c", ".venv/bin/python manage.py setup && exec .venv/bin/supervisord --nodaemon --configuration feltsite/supervisord.conf"]
