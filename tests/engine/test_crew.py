"""Writers, readers and a compactor, each a process, over one directory: linearizable, feed right, nothing lost."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.crew import Counts, Crew
from tests.torture import seconds, timeout


@pytest.fixture
def crews(quick: Path) -> Iterator[list[Crew]]:
    """Crews to be ended with the test; `quick` is in memory: more gets done there."""
    made: list[Crew] = []
    yield made
    for crew in made:
        crew.end()


@pytest.mark.acceptance
def test_what_writers_and_readers_saw_beside_a_compactor_is_linearizable(tmp_path: Path, crews: list[Crew]) -> None:
    """About 10 s, four writers and four readers on the real disk: some 5,000 calls and 1,000 pages of the feed."""
    crews.append(crew := Crew(tmp_path, writers=4, readers=4, compactors=1, seed=1))
    crew.run(rounds=250)
    counts = crew.judge()
    print(counts)
    assert counts.calls > 2000 and counts.transactions > 300 and counts.pages > 300
    assert counts.floor > 100


@pytest.mark.acceptance
def test_writers_readers_and_a_compactor_killed_in_a_loop_lose_nothing(quick: Path, crews: list[Crew]) -> None:
    """About 10 s: a hundred kills, at named steps and at any moment."""
    crews.append(crew := Crew(quick, writers=4, readers=4, compactors=1, seed=2))
    crew.run_killing(100, rounds=100)
    counts = crew.judge()
    print(counts)
    assert counts.kills >= 100 and counts.transactions > 100 and counts.floor > 0


@pytest.mark.torture
@timeout(0.25)
def test_crews_without_end_stay_linearizable_and_lose_nothing(quick: Path, crews: list[Crew]) -> None:
    """A quarter of the torture time, in rounds of a new directory each; every second round kills."""
    until = time.monotonic() + seconds(0.25)
    total = Counts(0, 0, 0, 0, 0, 0)
    seed = 1000
    while time.monotonic() < until:
        seed += 1
        print("seed", seed)
        crews.append(crew := Crew(quick / str(seed), writers=4, readers=4, compactors=seed % 3 > 0, seed=seed))
        if seed % 2:
            crew.run_killing(150, rounds=100, until=until)
        else:
            crew.run(rounds=400)
        total = Counts(*(one + other for one, other in zip(total, crew.judge(), strict=True)))
    print(seed - 1000, "rounds", total)
