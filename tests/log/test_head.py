import pytest

from engine import open_log
from engine.errors import ReplayError
from engine.sample import make_sample


@pytest.mark.parametrize("log_format", ["delta", "indextables"])
@pytest.mark.parametrize("checkpoint_every", [0, 7])
def test_the_head_of_every_version_is_that_of_its_snapshot(tmp_path, log_format, checkpoint_every):
    options = {"checkpoint_every": checkpoint_every} if checkpoint_every else {}
    make_sample(str(tmp_path / "t"), log_format=log_format, commits=20, seed=3, **options)
    log = open_log(str(tmp_path / "t"))
    for version in (0, 5, 19):
        head, snapshot = log.head(version), log.snapshot(version)
        assert (head.version, head.protocol, head.metadata) == (
            version,
            snapshot.protocol,
            snapshot.metadata,
        )


def test_the_head_is_found_without_reading_older_commits(tmp_path):
    make_sample(str(tmp_path / "t"), commits=20, seed=3)
    commits = sorted((tmp_path / "t" / "_delta_log").glob("*.json"))
    newest = commits[-1].read_bytes()
    head = b"".join(
        line for line in commits[0].read_bytes().splitlines(True) if b'"commitInfo"' not in line
    )
    commits[-1].write_bytes(newest + head)
    commits[3].write_bytes(b"not a commit\n")
    log = open_log(str(tmp_path / "t"))
    assert log.head().protocol["minReaderVersion"] >= 1
    with pytest.raises(ReplayError):
        log.snapshot()
