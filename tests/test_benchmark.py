"""volta.utils.benchmark, its figures beside those of torch.utils.benchmark."""
import pytest

import volta
from volta.errors import ArgumentError
from volta.utils import benchmark

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")


def of(library):
    from importlib import import_module
    return benchmark if library is volta else import_module("torch.utils.benchmark")


def figures(library):
    module = of(library)
    task = module.TaskSpec("a", "b", label="L", sub_label="S", description="D", num_threads=2)
    found = []
    for times in ([1.0, 2.0, 3.0], [1.0] * 5, [1.0, 1.01, 1.02, 1.03], [2.0]):
        m = module.Measurement(10, times, task)
        found += [m.times, m.median, round(m.mean, 9), round(m.iqr, 9), m.significant_figures, m.meets_confidence(), m.title,
                  m.as_row_name, m.stmt, m.num_threads, m.description, m.label]
    merged = module.Measurement.merge([module.Measurement(10, [1.0], task), module.Measurement(5, [2.0, 3.0], task)])
    found += [[[round(t, 9) for t in m.times] for m in merged], module.ordered_unique([2, 1, 2])]
    found += [module.select_unit(t) for t in (1e-9, 5e-8, 1e-5, 0.02, 3.0, 5000.0)] + [module.unit_to_english("us")]
    found += [round(module.trim_sigfig(x, 2), 6) for x in (123.456, 0.00123, 9.99)]
    return found


def test_figures():
    assert figures(volta) == figures(torch)


def test_timing(device):
    x = volta.ones(4, device=device)
    seen = []
    timer = benchmark.Timer("seen.append(volta.get_num_threads()); x + 1", "y = 2", globals={"x": x, "seen": seen}, label="add",
                            num_threads=1)
    before = volta.get_num_threads()
    found = timer.timeit(10)
    assert found.number_per_run == 10 and len(found.times) == 1 and found.median > 0 and set(seen) == {1}
    assert volta.get_num_threads() == before and "add" in repr(found) and "setup: y = 2" in repr(found)
    calls = []
    found = timer.blocked_autorange(lambda number, taken: calls.append(number), min_run_time=0.01)
    assert sum(found.raw_times) >= 0.01 and calls == [found.number_per_run] * len(found.raw_times)
    assert timer.adaptive_autorange(min_run_time=0.001, max_run_time=0.05).mean > 0


def test_tables():
    def measured(description, threads, seconds):
        task = benchmark.TaskSpec("x", "", label="L", sub_label=f"s{threads}", description=description, num_threads=threads)
        return benchmark.Measurement(1, seconds, task)

    table = benchmark.Compare([measured("d1", 1, [1e-3]), measured("d2", 1, [2e-3])])
    table.extend_results([measured("d1", 2, [3e-3, 9e-3, 3e-3, 9e-3])])
    lines = str(table).splitlines()
    assert lines[0].startswith("[-") and " L " in lines[0] and [part.strip() for part in lines[1].split("|")] == ["", "d1", "d2"]
    assert lines[2].startswith("1 threads: -") and [part.strip() for part in lines[3].split("|")] == ["s1", "1.0", "2.0"]
    assert [part.strip() for part in lines[5].split("|")] == ["s2", "6.0", ""] and "Times are in milliseconds (ms)." in lines
    table.trim_significant_figures()
    table.highlight_warnings()
    assert [part.strip() for part in str(table).splitlines()[5].split("|")] == ["s2", "6!", ""]


def test_what_is_refused():
    for options, text in (({"language": "c++"}, "times Python's code only"), ({"global_setup": "x"}, "global_setup is of C"),
                          ({"stmt": 3}, "stmt and setup must be text")):
        with pytest.raises(ArgumentError, match=text):
            benchmark.Timer(**options)
    for call in (benchmark.Timer().repeat, benchmark.Timer().autorange, benchmark.Compare([]).colorize):
        with pytest.raises(ArgumentError):
            call()
    with pytest.raises(AttributeError, match="has no attribute 'speed'"):
        print(benchmark.Measurement(1, [1.0], benchmark.TaskSpec("a", "b")).speed)
