"""Exit 0 where the instance on this host is ready, else 1: for container health checks.

It asks by the first name of ALLOWED_HOSTS: the instance need not answer to 127.0.0.1.
"""

import os
import sys
import urllib.error
import urllib.request

try:
    names = [each.strip().lstrip(".") for each in os.environ.get("ALLOWED_HOSTS", "").split(",")]
    host = next((each for each in names if each not in ("", "*")), "127.0.0.1")
    address = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}/health/ready"
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Host": host}), timeout=5) as answer:
        sys.exit(0 if answer.status == 200 else 1)
except (urllib.error.URLError, OSError) as error:
    sys.exit(f"not ready: {error}")
