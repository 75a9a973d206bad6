"""volta.profiler: what a profile holds, its steps beside PyTorch's, tables and traces."""
import gzip
import json
import time

import pytest

import volta
from volta import profiler
from volta.compat import profiler as older
from volta.errors import ArgumentError
from volta.profiler import ProfilerAction, profile, record_function, schedule


def test_kernels_and_named_parts(device):
    x = volta.randn(8, 8, device=device, requires_grad=True)
    with profile(record_shapes=True) as found:
        with record_function("forward"):
            loss = (x @ x).exp().sum()
        loss.backward()
    (x @ x).exp()
    names = [event.name for event in found.events()]
    assert names.count("exp") == 1 and names.count("forward") == 1 and "matmul" in names and names.count("sum") == 1
    part = next(e for e in found.events() if e.name == "forward")
    inside = [e for e in found.events() if part.start <= e.start and e.end <= part.end and e is not part]
    assert {"matmul", "exp", "sum"} <= {e.name for e in inside}
    assert part.self_cpu_time_total == pytest.approx(part.cpu_time_total - sum(e.cpu_time_total for e in inside), abs=1e-3)
    assert next(e for e in found.events() if e.name == "exp").input_shapes == [[8, 8]]


def test_sums_by_name_and_by_shape():
    with profile(record_shapes=True) as found:
        for n in (2, 2, 3):
            volta.ones(n).exp()
    by_name = {e.key: e for e in found.key_averages()}
    exps = [e for e in found.events() if e.name == "exp"]
    assert by_name["exp"].count == 3 and by_name["exp"].cpu_time_total == pytest.approx(sum(e.cpu_time_total for e in exps))
    assert by_name["exp"].cpu_time == pytest.approx(by_name["exp"].cpu_time_total / 3)
    by_shape = [(e.input_shapes, e.count) for e in found.key_averages(group_by_input_shape=True) if e.key == "exp"]
    assert sorted(by_shape) == [([[2]], 2), ([[3]], 1)]
    assert found.events().total_average().count == len(found.events())


def test_tables_and_traces(tmp_path):
    with profile() as found, record_function("outer"):
        volta.ones(2).exp()
        time.sleep(0.02)
    lines = found.key_averages().table(sort_by="cpu_time_total", row_limit=2).splitlines()
    assert lines[1].split()[:3] == ["Name", "Self", "CPU"] and lines[3].split()[0] == "outer" and len(lines) == 7
    assert lines[3].split()[3].endswith("%") and lines[-1].startswith("Self CPU time total: ")
    with pytest.raises(ArgumentError, match="table: sort_by must be one of cpu_time, .*got 'size'"):
        found.key_averages().table(sort_by="size")
    found.export_chrome_trace(tmp_path / "trace.json")
    profiler.tensorboard_trace_handler(str(tmp_path / "logs"), "worker", use_gzip=True)(found)
    written, = (tmp_path / "logs").iterdir()
    assert written.name.startswith("worker.") and written.name.endswith(".pt.trace.json.gz")
    for data in ((tmp_path / "trace.json").read_bytes(), gzip.decompress(written.read_bytes())):
        events = json.loads(data)["traceEvents"]
        assert {"outer", "exp"} <= {e["name"] for e in events} and all(e["ph"] == "X" and e["dur"] >= 0 for e in events)


def test_an_error_inside_ends_what_is_open():
    with profile() as found:
        with pytest.raises(KeyError), record_function("failed"):
            raise KeyError
        volta.ones(1)
    assert [e.name for e in found.events()][0] == "failed"

    @record_function("named")
    def function():
        return volta.ones(1)
    with profile() as found:
        function()
    assert "named" in [e.name for e in found.events()] and function().tolist() == [1.0]


def test_steps_as_pytorchs():
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    cases = [dict(wait=1, warmup=1, active=2, repeat=2), dict(wait=0, warmup=0, active=1), dict(wait=2, warmup=1, active=3, skip_first=4),
             dict(wait=1, warmup=0, active=2, repeat=1, skip_first=1), dict(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1)]
    for options in cases:
        ours, theirs = schedule(**options), torch.profiler.schedule(**options)
        assert [ours(i).name for i in range(20)] == [theirs(i).name for i in range(20)], options

    def run(module, **options):
        seen = []
        with module.profile(on_trace_ready=lambda p: seen.append(p.step_num), **options) as found:
            for _ in range(9):
                found.step()
        return seen, found.step_num
    for options in cases:
        assert run(profiler, schedule=schedule(**options)) == run(
            torch.profiler, schedule=torch.profiler.schedule(**options), activities=[torch.profiler.ProfilerActivity.CPU])
    assert run(profiler) == run(torch.profiler, activities=[torch.profiler.ProfilerActivity.CPU])


def test_only_the_steps_that_are_asked_for():
    kept, steps = [], schedule(wait=1, warmup=1, active=1)
    with profile(schedule=steps, on_trace_ready=lambda p: kept.append([e.name for e in p.events()])) as found:
        for n in range(6):
            getattr(volta.ones(1), "exp" if n % 3 == 2 else "log")()
            found.step()
    assert len(kept) == 2 and all("exp" in names and "log" not in names for names in kept)
    assert [name for name in kept[1] if name.startswith("Profiler")] == ["ProfilerStep#5"]


def test_what_is_refused_or_not_recorded():
    with pytest.warns(UserWarning, match="profile: profile_memory, with_stack: only times and shapes are recorded"):
        profile(profile_memory=True, with_stack=True)
    with pytest.raises(ArgumentError, match="schedule: needs wait, warmup"):
        schedule(wait=0, warmup=0, active=0)
    assert schedule(wait=0, warmup=0, active=1)(0) is ProfilerAction.RECORD_AND_SAVE


def test_the_older_form():
    with older.profile(record_shapes=True) as found:
        volta.ones(2).exp()
    assert "exp" in [e.name for e in found.function_events] and "exp" in found.table() and found.self_cpu_time_total > 0
    with older.profile(enabled=False) as found:
        volta.ones(2).exp()
    assert not found.function_events and found.total_average().count == 0
