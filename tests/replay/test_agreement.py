"""Random logs: every engine agrees with the model, whatever the log is made of."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import open_log
from engine.log.listing import list_log
from tests.model import normal
from tests.observe import assert_same, observed
from tests.random_logs import RandomLog, random_logs


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory):
    return tmp_path_factory.mktemp("random") / "table"


@given(log=random_logs(), data=st.data())
def test_every_engine_agrees_with_the_model_at_every_version(root, log: RandomLog, data) -> None:
    builder = log.write(root)
    version = data.draw(st.none() | st.integers(log.first, log.latest), label="version")
    truth = builder.truth(version)
    for engine in ("local", "reference"):
        snapshot = open_log(str(root)).snapshot(version, engine=engine)
        assert snapshot.version == (log.latest if version is None else version)
        assert_same(observed(snapshot), truth)
        assert snapshot.summary()["numFiles"] == len(truth.files)
    head = open_log(str(root)).head(version)
    assert (normal(head.protocol), normal(head.metadata)) == tuple(
        truth.singles[kind] for kind in ("protocol", "metaData")
    )


@given(log=random_logs(), seed=st.integers(0, 99))
def test_the_order_of_the_listing_does_not_matter(root, log: RandomLog, seed: int) -> None:
    builder = log.write(root)
    opened = open_log(str(root))
    listing = list_log(opened.directory)
    refs = list(listing.refs)
    random.Random(seed).shuffle(refs)
    opened._fresh = replace(listing, refs=tuple(refs))
    assert_same(observed(opened.snapshot()), builder.truth())
