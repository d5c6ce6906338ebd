"""Routes of the state room, under `/v1`."""

from django.urls import path, register_converter

from apps.state.api import documents, views
from apps.state.api.paths import SegmentConverter

register_converter(SegmentConverter, "segment")

urlpatterns = [
    path("collections", views.CollectionsView.as_view(), name="collections"),
    path("collections/<segment:collection>", views.CollectionView.as_view(), name="collection"),
    path("collections/<segment:collection>/<segment:record>", views.RecordView.as_view(), name="record"),
    path("collections/<segment:collection>/<segment:record>/cas", views.SwapView.as_view(), name="cas"),
    path("query", views.QueryView.as_view(), name="query"),
    path("transactions", views.TransactionsView.as_view(), name="transactions"),
    path("transactions/<segment:transaction>", views.TransactionView.as_view(), name="transaction"),
    path("changes", views.ChangesView.as_view(), name="changes"),
    path("revision", views.RevisionView.as_view(), name="revision"),
    path("runtime", views.RuntimeView.as_view(), name="runtime"),
    path("openapi.json", documents.openapi, name="openapi"),
    path("docs", documents.docs, name="docs"),
]
