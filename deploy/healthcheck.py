"""Exit 0 where the instance on this host is ready, else 1: for container health checks."""

import os
import sys
import urllib.error
import urllib.request

try:
    address = f"http://127.0.0.1:{os.environ.get('PORT', '8000')}/health/ready"
    with urllib.request.urlopen(address, timeout=5) as answer:
        sys.exit(0 if answer.status == 200 else 1)
except (urllib.error.URLError, OSError) as error:
    sys.exit(f"not ready: {error}")
