"""The main flows cross few files, so that a reader can follow them; ``flows.py`` prints them."""

from __future__ import annotations

import pytest

from tests.contracts.flows import MOST, files_of


@pytest.mark.parametrize("flow", MOST, ids=lambda flow: flow.__name__)
def test_a_flow_crosses_few_files(flow) -> None:
    crossed = files_of(flow)
    assert len(crossed) <= MOST[flow], crossed
