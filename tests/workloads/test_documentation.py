"""What the documentation says of the state machine is what the code does."""

from pathlib import Path

from apps.workloads import backoff, diagram
from apps.workloads.commands import RetryPolicy

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "workloads.md").read_text()


def test_the_page_shows_the_diagram_and_the_table_made_from_the_code():
    assert diagram.mermaid() in PAGE, "paste apps.workloads.diagram.mermaid() into docs/workloads.md"
    assert diagram.markdown() in PAGE, "paste apps.workloads.diagram.markdown() into docs/workloads.md"


def test_the_page_states_the_default_back_off_as_it_is():
    caps = [backoff.cap_ms(RetryPolicy(), used) // 1000 for used in range(1, 4)]
    assert f"at most {caps[0]}, {caps[1]}, {caps[2]} seconds" in PAGE
