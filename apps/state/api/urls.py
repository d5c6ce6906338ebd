"""Routes of the state room, under `/v1`; and the reference's names for some of them, at the root."""

from django.urls import path

from apps.state.api import capabilities, contracts, documents, events, questions, transfers, views
from apps.state.api.routing import action

_COLLECTION = "collections/<str:collection>"
_RECORD = f"{_COLLECTION}/<str:record>"
_search = action(questions.SearchView, beside=views.RecordView, record="search")
_read_basis = action(questions.BasisView, beside=views.TransactionView, transaction="read-basis")
_provenance = questions.ProvenanceView.as_view()

shared = [
    path("collections", views.CollectionsView.as_view(), name="collections"),
    path(_COLLECTION, views.CollectionView.as_view(), name="collection"),
    path(f"{_COLLECTION}/search", _search, name="search"),
    path(_RECORD, views.RecordView.as_view(), name="record"),
    path(f"{_RECORD}/cas", views.SwapView.as_view(), name="cas"),
    path(f"{_RECORD}/history", questions.HistoryView.as_view(), name="history"),
    path(f"{_RECORD}/provenance", _provenance, name="provenance"),
    path(f"{_COLLECTION}/indexes/<str:index>", questions.IndexView.as_view(), name="index"),
    path("query", questions.QueryView.as_view(), name="query"),
    path("transactions", views.TransactionsView.as_view(), name="transactions"),
    path("transactions/read-basis", _read_basis, name="read-basis"),
    path("transactions/<str:transaction>", views.TransactionView.as_view(), name="transaction"),
    path("events", events.EventsView.as_view(), name="events"),
    path("revision", views.RevisionView.as_view(), name="revision"),
    path("runtime", views.RuntimeView.as_view(), name="runtime"),
]
"""Routes that the reference has without `/v1`, and what goes with them."""

urlpatterns = [
    *shared,
    path("changes", views.ChangesView.as_view(), name="changes"),
    path("capabilities", capabilities.CapabilitiesView.as_view(), name="capabilities"),
    path("capabilities/<str:name>", capabilities.CapabilityView.as_view(), name="capability"),
    path("export", transfers.ExportView.as_view(), name="export"),
    path("import", transfers.ImportView.as_view(), name="import"),
    path("schema", contracts.SchemaView.as_view(), name="schema"),
    path("schema/validate", contracts.SchemaValidateView.as_view(), name="schema-validate"),
    path("schema/pending", contracts.SchemaPendingView.as_view(), name="schema-pending"),
    path("application", contracts.ApplicationView.as_view(), name="application"),
    path("openapi.json", documents.DocumentView.as_view(schema=None), name="openapi"),
    path("docs", documents.PageView.as_view(schema=None), name="docs"),
]

aliases = [
    *shared,
    path("provenance/<str:collection>/<str:record>", _provenance),
    path("capabilities/search/<str:collection>", _search),
    path("capabilities/<str:name>", capabilities.ReferenceCapabilityView.as_view()),
]
"""The same views under the reference's names. They are not in the OpenAPI document: `/v1` is the canonical form."""
