"""Arguments and hooks that PyTorch's classes and functions have beside their main ones, against PyTorch."""
import pickle
import warnings
from contextlib import contextmanager

import pytest

import volta
from volta.errors import ArgumentError, DeviceError
from volta.nn import hooks
from volta.nn.state import consume_prefix_in_state_dict_if_present

torch = pytest.importorskip("torch", reason="PyTorch is not installed; these comparisons are an extra")
both = pytest.mark.parametrize("library", [volta, torch], ids=["volta", "torch"])


@both
def test_names_of_matrices_as_both_spell_them(library):
    a = library.tensor([[2.0, 1.0], [1.0, 3.0]])
    linalg = library.linalg
    for name in ("cholesky_ex", "cond", "eigh", "eigvalsh", "ldl_factor", "ldl_factor_ex", "matrix_norm", "matrix_rank", "norm", "pinv",
                 "det", "inv"):
        spellings = ("input", "A") if library is volta else ("A",) if name in ("det", "inv") else ("input",)
        found, expected = getattr(linalg, name)(**{spellings[0]: a}), getattr(linalg, name)(**{spellings[-1]: a})
        pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
        assert all(bool((x == y).all()) for x, y in pairs), name
    assert linalg.vector_norm(input=a).ndim == 0
    assert library.allclose(linalg.solve_triangular(input=a, B=a, upper=True), linalg.solve_triangular(a, a, upper=True))
    assert library.allclose(linalg.lstsq(a, b=a).solution, library.eye(2), atol=1e-6)
    assert library.allclose(linalg.tensorsolve(a, other=a[0]), linalg.tensorsolve(input=a, other=a[0]))
    assert linalg.tensorinv(input=a, ind=1).shape == (2, 2)
    assert library.nn.functional.one_hot(input=library.tensor([1]), num_classes=3).tolist() == [[0, 1, 0]]
    assert library.tril_indices(2, 2, layout=library.strided, pin_memory=False).tolist() == [[0, 1, 1], [0, 0, 1]]


def test_layouts_of_indices_that_there_are_not():
    with pytest.raises(ArgumentError, match="triu_indices: there is no pinned memory"):
        volta.triu_indices(2, 2, pin_memory=True)


@both
def test_arguments_of_layers(library):
    nn = library.nn
    assert nn.Embedding(3, 2, _freeze=True).weight.requires_grad is False and nn.Embedding(3, 2).weight.requires_grad
    with pytest.warns(FutureWarning):
        layer = nn.Hardtanh(min_value=-2.0, max_value=3.0)
    assert (layer.min_val, layer.max_val) == (-2.0, 3.0)
    assert nn.RMSNorm(2)(x=library.ones(1, 2)).shape == (1, 2)
    assert nn.ModuleList([nn.ReLU()]).pop(key=0) is not None
    found = nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2])(input_=library.ones(2, 4), target_=library.tensor([0, 5]))
    assert found.output.shape == (2,)
    assert nn.Linear(1, 1).dump_patches is False and nn.Module.call_super_init is False


@both
def test_state_dict_by_position(library):
    layer, held = library.nn.Linear(1, 1), {}
    with pytest.warns(FutureWarning):
        found = layer.state_dict(held, "x.", True)
    assert found is held and list(held) == ["x.weight", "x.bias"] and held["x.weight"] is layer.weight


@both
def test_backward_under_its_old_name(library):
    x = library.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning):
        library.autograd.backward([x * 2], grad_variables=[library.ones(2)])
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.autograd.backward([x * 2], [library.ones(2)], grad_variables=[library.ones(2)])


def checkpoint_of(library):
    from importlib import import_module
    return import_module(f"{library.__name__}.utils.checkpoint")


@both
def test_contexts_of_checkpoints(library):
    seen, module = [], checkpoint_of(library)

    @contextmanager
    def noted(name):
        seen.append(name)
        yield

    def function(x):
        seen.append("call")
        return (x * 2).sin().cos()

    x = library.ones(2, requires_grad=True)
    module.checkpoint(function, x, use_reentrant=False, context_fn=lambda: (noted("first"), noted("again"))).sum().backward()
    assert seen == ["first", "call", "again", "call"]
    with pytest.raises(ValueError):
        module.checkpoint(function, x, use_reentrant=True, context_fn=lambda: (noted("first"), noted("again")))
    with pytest.raises(ValueError):
        module.checkpoint(function, x, use_reentrant=False, determinism_check="x")
    assert len(module.noop_context_fn()) == 2


@both
@pytest.mark.parametrize("stop", [True, False, None])
def test_checkpoints_stop_early(library, stop):
    seen, module = [], checkpoint_of(library)

    def function(x):
        y = x.sin() * x
        seen.append("end")
        return y.clone()

    x = library.ones(2, requires_grad=True)
    if stop is None:
        out = module.checkpoint(function, x, use_reentrant=False)
    else:
        with module.set_checkpoint_early_stop(stop):
            out = module.checkpoint(function, x, use_reentrant=False)
    out.sum().backward()
    assert seen == (["end", "end"] if stop is False else ["end"])


@both
def test_checkpoints_that_change(library):
    calls = []

    def function(x):
        calls.append(1)
        return (x * 2).sin() if len(calls) == 1 else (x[:1] * 2).sin()

    module = checkpoint_of(library)
    out = module.checkpoint(function, library.ones(2, requires_grad=True), use_reentrant=False)
    with pytest.raises(module.CheckpointError):
        out.sum().backward()


def test_what_checkpoints_refuse():
    module = checkpoint_of(volta)
    with pytest.raises(ArgumentError, match="set_checkpoint_debug_enabled: checkpoints keep no traces"):
        module.checkpoint(volta.sin, volta.ones(1, requires_grad=True), use_reentrant=False, debug=True)
    module.set_checkpoint_debug_enabled(False)


def test_arguments_of_save_and_load(tmp_path):
    path = tmp_path / "x.pt"
    volta.save({"a": volta.ones(2)}, path, pickle, 4)
    assert torch.load(path)["a"].tolist() == volta.load(path, "cpu", pickle)["a"].tolist() == [1, 1]
    for call in (lambda: volta.save(1, path, pickle_module=pytest), lambda: volta.load(path, pickle_module=pytest)):
        with pytest.raises(ArgumentError, match="files are read and written without running what they hold, so pickle_module="):
            call()
    with pytest.raises(ArgumentError, match="leave _use_new_zipfile_serialization out"):
        volta.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(ArgumentError, match="save: pickle_protocol must be a number, got '2'"):
        volta.save(1, path, pickle_protocol="2")


def hooks_everywhere(library):
    """What hooks of all modules see, beside a module's own."""
    place = hooks if library is volta else torch.nn.modules.module
    seen, layer = [], library.nn.Sequential(library.nn.Linear(2, 2), library.nn.ReLU())

    def note(name, of=library.nn.Sequential):
        return lambda module, *given: seen.append((name, len(given))) if isinstance(module, of) else None

    handles = [place.register_module_forward_pre_hook(note("before")), place.register_module_forward_hook(note("after")),
               place.register_module_forward_hook(note("after with", library.nn.ReLU), with_kwargs=True),
               place.register_module_full_backward_pre_hook(note("back before")), place.register_module_full_backward_hook(note("back"))]
    layer.register_forward_hook(note("own"))
    layer.register_full_backward_hook(note("own back"))
    try:
        layer(library.ones(1, 2, requires_grad=True)).sum().backward()
        changing = place.register_module_forward_pre_hook(lambda module, args: (args[0] * 0,))
        seen.append(library.nn.ReLU()(library.ones(2)).tolist())
        changing.remove()
    finally:
        for handle in handles:
            handle.remove()
    count = len(seen)
    library.nn.ReLU()(library.ones(2))
    return [*seen, len(seen) - count]


def registrations_everywhere(library):
    """What hooks see when modules take parameters, buffers and others, and what is taken then."""
    place, nn, seen = hooks if library is volta else torch.nn.modules.module, library.nn, []
    handles = [getattr(place, f"register_module_{kind}_registration_hook")(lambda module, name, value, kind=kind: seen.append((kind, name)))
               for kind in ("parameter", "buffer", "module")]
    other = nn.Tanh()
    handles.append(place.register_module_module_registration_hook(lambda module, name, each: other if isinstance(each, nn.ReLU) else None))
    try:
        layers = nn.Sequential(nn.BatchNorm1d(2), nn.ReLU(), nn.Linear(1, 1, bias=False))
        layers[0].running_mean, layers.last = library.ones(2), nn.ReLU()
    finally:
        for handle in handles:
            handle.remove()
    nn.Linear(1, 1)
    return [*seen, repr(layers)]


def test_hooks_of_what_all_modules_take():
    assert registrations_everywhere(volta) == registrations_everywhere(torch)
    with pytest.raises(ArgumentError, match="register_module_buffer_registration_hook: a hook must be a function, got 3"):
        hooks.register_module_buffer_registration_hook(3)


def test_states_that_hooks_replace():
    """By the older name of the method: what the hook returns is the state; hooks of loading are told that it is strict, as in PyTorch."""
    def told(library):
        layer, strict = library.nn.Sequential(library.nn.Linear(1, 1)), []
        handles = [layer._register_state_dict_hook(lambda module, state, prefix, metadata: {prefix + "all": len(state)}),
                   layer[0]._register_state_dict_hook(lambda module, state, prefix, metadata: None)]
        assert layer.state_dict(prefix="x.") == {"x.all": 2}
        for handle in handles:
            handle.remove()
        layer[0].register_load_state_dict_pre_hook(lambda module, state, prefix, metadata, *rest: strict.append(rest[0]))
        assert layer.load_state_dict({}, strict=False).missing_keys == ["0.weight", "0.bias"] == list(layer.state_dict())
        return strict

    assert told(volta) == told(torch) == [True]


def test_hooks_of_all_modules():
    assert hooks_everywhere(volta) == hooks_everywhere(torch)
    assert not hooks._everywhere
    with pytest.raises(ArgumentError, match="register_module_forward_hook: a hook must be a function, got 3"):
        hooks.register_module_forward_hook(3)


def test_prefixes_of_state_dicts():
    ours, theirs = ({"module.a": 1, "b": 2, "module.c.module.d": 3} for _ in range(2))
    consume_prefix_in_state_dict_if_present(ours, "module.")
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(theirs, "module.")
    assert ours == theirs


@both
def test_buffers_without_a_shape(library):
    net = library.nn.Module()
    net.kept, net.left_out = library.nn.UninitializedBuffer(), library.nn.UninitializedBuffer(persistent=False)
    assert list(net._buffers) == ["kept", "left_out"] and isinstance(net.kept, library.nn.Buffer)
    for buffer in (net.kept, net.left_out):
        buffer.materialize((2, 3))
    assert [name for name, _ in net.named_buffers()] == ["kept", "left_out"] and list(net.state_dict()) == ["kept"]
    assert net.kept.shape == (2, 3) and isinstance(net.kept, library.Tensor)


def test_states_of_a_device_generator():
    state = volta.cuda.get_rng_state("cuda")
    x = volta.rand(3)
    volta.cuda.set_rng_state(state, device=0)
    assert volta.rand(3).tolist() == x.tolist()


def test_facts_of_dtypes():
    for name in ("float32", "int64", "bool"):
        ours, theirs = getattr(volta, name), getattr(torch, name)
        assert ours.is_complex is theirs.is_complex is False and ours.to_real() is ours and theirs.to_real() is theirs
    with pytest.raises(TypeError, match=r"storage: .* write x.untyped_storage\(\) for the memory"):
        volta.ones(2).storage()


@both
def test_facts_of_schedules_and_datasets(library):
    def optimizer():
        return library.optim.SGD([library.nn.Parameter(library.ones(1))], lr=0.1, momentum=0.9)

    cycles = library.optim.lr_scheduler.CyclicLR
    found = [cycles(optimizer(), 0.1, 0.2, mode=mode, gamma=0.5).scale_fn(3) for mode in ("triangular", "triangular2", "exp_range")]
    assert found == [1.0, 0.25, 0.125] and cycles(optimizer(), 0.1, 0.2, scale_fn=lambda x: x * 2).scale_fn(3) == 6
    plateau = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer(), patience=0, cooldown=2)
    seen = []
    for metric in (1.0, 2.0, 2.0, 2.0):
        plateau.step(metric)
        seen.append(plateau.in_cooldown)
    assert seen == [False, True, True, False]
    data = library.utils.data if library is torch else volta.data
    assert data.ConcatDataset.cumsum([[1, 2], [3]]) == [2, 3]


def test_names_of_cuda():
    cuda = volta.cuda
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == cuda.memory_allocated() and set(stats) <= {
        f"{kind}_bytes.all.{when}" for kind in ("allocated", "reserved") for when in ("current", "peak")}
    with pytest.raises(DeviceError, match="cuda.mem_get_info: WebGPU does not tell how much memory a GPU has"):
        cuda.mem_get_info()
    assert cuda.get_arch_list() == [] and cuda.is_current_stream_capturing() is False
    assert cuda.max_memory_cached is cuda.max_memory_reserved


def test_the_device_of_a_tensor(device):
    with volta.cuda.device_of(volta.ones(1, device=device)):
        assert volta.ones(1, device=device).device.type == device


def test_marks_for_profilers():
    from volta.compat import nvtx
    assert nvtx.range_push("a") == 0 and nvtx.range_push("b") == 1
    with nvtx.range("step {}", 1):
        nvtx.mark("here")
    assert nvtx.range_pop() == 1 and nvtx.range_pop() == 0


@both
def test_facts_of_storages(library):
    x = library.arange(3, dtype=library.int32)
    storage = x.untyped_storage()
    assert storage.tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0] and (storage.element_size(), storage.get_device()) == (1, None)
    assert (storage.is_cuda, storage.is_pinned(), storage.is_shared()) == (False, False, False)
    assert library.ones(2, dtype=library.float64).to(tensor=x).dtype is library.int32


def test_storage_of_a_device(device):
    storage = volta.ones(3, device=device).untyped_storage()
    assert storage.is_cuda is (device != "cpu") and storage.get_device() == (None if device == "cpu" else 0)
    if device != "cpu":
        with pytest.raises(BufferError):
            storage.tolist()
