import sys

import django

django.setup()

from shop.tasks import send_receipt  # noqa: E402

result = send_receipt.enqueue(int(sys.argv[1]))
print(result.id)
