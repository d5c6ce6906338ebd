from django_tasks import task


@task(priority=5)
def send_receipt(order: int) -> str:
    return f"the receipt of order {order} is on its way"
