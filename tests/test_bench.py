from __future__ import annotations

import json
import shutil

from bench.__main__ import main
from bench.logs import sampled
from bench.measurements import MEASUREMENTS, REPLAY, Contender, Goal, Measurement
from bench.run import Result, Run, judge

SMALL = sampled(commits=4, adds=3, removes=1, checkpoint_at=(2,))


def test_every_run_is_kept_and_the_table_the_numbers_and_the_chart_are_written(tmp_path, capsys):
    small = Measurement("S", "a small log", SMALL, REPLAY, (Goal("seconds", at_least=1e9),))
    again = Measurement("T", "again", SMALL, REPLAY, (Goal("seconds", at_most=1e9, of="S"),))
    assert main(["--runs", "1", "--output", str(tmp_path)], [small, again]) == 0
    out = capsys.readouterr().out
    assert "speed >= 1e+09x: FAIL" in out
    assert "time <= 1e+09x of S: pass" in out
    assert str(tmp_path / "bench.json") in out
    measured = json.loads((tmp_path / "bench.json").read_text())["measurements"]
    assert [len(c["runs"]) for m in measured for c in m["contenders"].values()] == [1] * 4
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_contenders_that_disagree_are_an_error(tmp_path, capsys):
    wrong = (REPLAY[0], Contender("wrong", "tests.test_bench:one_file_more"))
    measurement = Measurement("S", "a small log", SMALL, wrong, copies=True)
    assert main(["--runs", "1", "--output", str(tmp_path)], [measurement]) == 1
    assert "DISAGREEMENT S: files differ: txlog [(9,)]; wrong [(10,)]" in capsys.readouterr().err


def one_file_more(path):
    shutil.rmtree(path)  # a copy of its own
    yield
    return {"files": 10}


def test_a_goal_is_a_ratio_of_medians():
    runs = {"txlog": [run(1), run(3), run(2)], "deltalake": [run(8), run(4), run(6)]}
    goals = (Goal("seconds", at_least=3), Goal("seconds", at_most=0.3), Goal("files", at_most=1))
    result = Result(Measurement("S", "", SMALL, REPLAY, goals), 0, runs)
    assert [(v.ratio, v.met) for v in judge(result, [result])] == [
        (3, True),
        (1 / 3, False),
        (1, True),
    ]


def test_a_goal_may_bound_a_number_itself():
    goals = (Goal("peak_mb", at_most=50, than=None), Goal("peak_mb", at_most=49, than=None))
    result = Result(Measurement("P", "", SMALL, REPLAY, goals), 0, {"txlog": [run(1)]})
    assert [(v.ratio, v.met) for v in judge(result, [result])] == [(50, True), (50, False)]


def test_a_goal_beside_what_was_not_measured_is_not_judged():
    goal = Goal("seconds", at_most=2, than="txlog", of="B")
    result = Result(Measurement("D", "", SMALL, REPLAY, (goal,)), 0, {"txlog": [run(1)]})
    assert [v.met for v in judge(result, [result])] == [None]


def test_names_of_measurements_are_unique():
    names = [measurement.name for measurement in MEASUREMENTS]
    assert len(names) == len(set(names))


def run(seconds: float) -> Run:
    return Run(seconds, seconds, 0.1, seconds + 1, 50, {"files": 7})
