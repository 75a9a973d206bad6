"""CyclicLR and averages of parameters, beside PyTorch's."""
import numpy as np
import pytest

import volta
from volta.errors import ArgumentError

torch = pytest.importorskip("torch", reason="compares with PyTorch")


@pytest.mark.parametrize("options", [
    {}, {"step_size_down": 3, "mode": "triangular2"}, {"mode": "exp_range", "gamma": 0.9, "step_size_down": 7},
    {"scale_fn": lambda x: 1 / (5 ** (x * 0.1)), "scale_mode": "iterations"}, {"cycle_momentum": False}],
    ids=["triangular", "triangular2", "exp_range", "function", "no_momentum"])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_cyclic_rates(kind, options):
    seen = []
    for lib in (volta, torch):
        p = lib.nn.Parameter(lib.ones(2))
        optimizer = getattr(lib.optim, kind)([p], **({"momentum": 0.9, "lr": 0.1} if kind == "SGD" else {}))
        schedule, log = lib.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=5, **options), []
        for _ in range(40):
            group = optimizer.param_groups[0]
            log.append((group["lr"], group.get("momentum", group.get("betas"))))
            optimizer.step()
            schedule.step()
        seen.append(np.array([[lr, np.ravel(m)[0]] for lr, m in log]))
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"anneal_strategy": "linear", "anneal_epochs": 4}, {"anneal_epochs": 0}])
def test_rates_of_averaging(options):
    seen = []
    for lib in (volta, torch):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(2))], lr=0.5)
        schedule, log = lib.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, **options), []
        for _ in range(14):
            log.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        seen.append(log)
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-9)


@pytest.mark.parametrize("options", [{}, {"use_buffers": True}, {"avg_fn": "get_ema_avg_fn"}, {"multi_avg_fn": "get_ema_multi_avg_fn"}],
                         ids=["mean", "buffers", "ema", "multi"])
def test_averaged_models(options, device):
    states, rng = [], np.random.default_rng(0)
    values = [rng.standard_normal((3, 2)).astype(np.float32) for _ in range(4)]
    batches = [rng.standard_normal((5, 2)).astype(np.float32) for _ in range(3)]
    for lib, place in ((volta, device), (torch, "cpu")):
        utils = lib.optim.swa_utils
        model = lib.nn.Sequential(lib.nn.Linear(2, 3, bias=False), lib.nn.BatchNorm1d(3)).to(place)
        chosen = {k: getattr(utils, v)(0.9) if isinstance(v, str) else v for k, v in options.items()}
        averaged = utils.AveragedModel(model, **chosen)
        for value in values:
            model[0].weight.data.copy_(lib.tensor(value).to(place))
            model[1].running_mean.add_(1)
            model[1].num_batches_tracked.add_(3)
            averaged.update_parameters(model)
        if not options:
            utils.update_bn([[lib.tensor(b).to(place)] for b in batches], averaged)
        states.append({k: v.cpu().numpy() for k, v in averaged.state_dict().items()})
    assert list(states[0]) == list(states[1])
    for key in states[0]:
        np.testing.assert_allclose(states[0][key], states[1][key], rtol=1e-5, atol=1e-6, err_msg=key)


def test_what_the_functions_of_averages_are_given():
    def seen(lib):
        found = []
        model = lib.nn.BatchNorm1d(3)
        for options in ({"avg_fn": lambda average, value, count: found.append((count.ndim, str(count.dtype)[-5:], 1)) or value},
                        {"multi_avg_fn": lambda averages, values, count: found.append((len(averages), str(averages[0].dtype)[-5:],
                                                                                       count.item()))}):
            averaged = lib.optim.swa_utils.AveragedModel(model, use_buffers=True, **options)
            for _ in range(2):
                averaged.update_parameters(model)
        return sorted(found)
    assert seen(volta) == seen(torch)


def test_both_functions_are_refused():
    with pytest.raises(ArgumentError, match="avg_fn or multi_avg_fn, not both"):
        volta.optim.swa_utils.AveragedModel(volta.nn.Linear(1, 1), avg_fn=print, multi_avg_fn=print)
