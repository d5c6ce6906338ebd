"""`/v1/keys`: keys over HTTP. Thin: the rules are in `services.py`."""

from rest_framework.response import Response

from apps.keys import shapes
from apps.keys.models import ApiKey
from apps.keys.views import KeyedRequest, KeyedView


class CurrentKey(KeyedView):
    """`GET /v1/keys/current`: the key that asks, as the server knows it."""

    scopes = {"GET": None}
    namespaced = False

    def get(self, request: KeyedRequest) -> Response:
        """Answer 200 with the key's summary."""
        return Response(shapes.summary(ApiKey.objects.get(pk=request.principal.key_id)))
