"""`volta.kernel`: ops of a user's own on both devices, and what is refused."""
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import volta
from volta.errors import ArgumentError, AutogradError, DeviceError, DTypeError, ShapeError
from volta.ops.table import RECORDS
from volta.selftest import selftest

SWISH = """
fn exponential(x: f32) -> f32 { return exp_accurate(x); }   // fn not_this(
fn swish(x: f32, beta: f32) -> f32 {
    var i = -beta * x;          /* a name of the code around it, hidden here */
    return x / (1.0 + exponential(i));
}
"""
OUTER = """
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;
struct Params { scale: f32 }
var<immediate> p: Params;
@compute @workgroup_size(64)
fn scaled_outer(grid: Grid, @builtin(local_invocation_index) thread: u32) {
    let i = 64u * group_of(grid) + thread;
    if (i < arrayLength(&out)) { out[i] = p.scale * a[i / arrayLength(&b)] * b[i % arrayLength(&b)]; }
}
"""
ONE = "@group(0) @binding(0) var<storage, read> x: array<f32>;\n@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"


@pytest.fixture(autouse=True)
def table():
    """The op table as it was, without ops that examples have declared."""
    before = dict(RECORDS)
    for name in [name for name, op in RECORDS.items() if op.family == "own"]:
        del RECORDS[name]
    yield
    RECORDS.clear()
    RECORDS.update(before)


def swish(**options):
    given = {"cpu": lambda x, beta: x / (1 + np.exp(-beta * x)),
             "grad": lambda g, x, beta, out: (g * volta.sigmoid(beta * x) * (1 + beta * (x - out)), g * out * (x - out))}
    return volta.kernel(SWISH, **{**given, **options})


def scaled_outer(**options):
    return volta.kernel(OUTER, **{
        "outputs": lambda a, b, scale: (*a, *b), "cpu": lambda a, b, scale: scale * np.multiply.outer(a, b),
        "grad": (lambda g, b, scale: scale * (g @ b), lambda g, a, scale: scale * (a @ g)),
        "samples": [((3,), (5,), {"scale": 2.0}), ((130,), (7,), {"scale": -0.5}), ((0,), (3,), {"scale": 1.0})], **options})


# ---------------------------------------------------------------- functions of elements
def test_a_function_of_elements(device):
    op = swish()
    assert op.check(device)
    x, beta = volta.randn(4, 1, 6, device=device)[::-1].transpose(0, 2), volta.tensor([1.0, 2.0, 0.5], device=device)[:, None]
    volta.testing.assert_close(op(x, beta), x * volta.sigmoid(beta * x), 1e-5, 1e-6)
    volta.testing.assert_close(op(x, 2), op(x=x, beta=volta.full((), 2.0, device=device)), 1e-6, 1e-6)
    volta.testing.assert_close(op(volta.arange(3, device=device), 1.0), op(volta.tensor([0.0, 1.0, 2.0], device=device), 1.0))
    assert op(x.half(), 2.0).dtype is volta.float16 and op(volta.zeros(0, 3, device=device), 1.0).shape == (0, 3)


def test_one_dispatch_and_no_copies(gpu):
    op = swish()
    x = volta.randn(70, 33, device=gpu)[:, ::2].T
    beta = volta.ones(70, device=gpu)
    op(x, beta)
    before = volta.gpu.stats()
    with volta.gpu.forbid_transfers():
        op(x, beta)
    done = volta.gpu.stats() - before
    assert (done.dispatches, done.pipelines_created, done.uploads) == (1, 0, 0)


def test_mixed_types(device):
    op = volta.kernel("fn mix(x: f32, n: i32, yes: bool, u: u32) -> f32 { if (yes) { return x * f32(n) + f32(u & 3u); } return -x; }",
                      cpu=lambda x, n, yes, u: np.where(yes, x * n.astype(x.dtype) + (u & 3).astype(x.dtype), -x),
                      grad=lambda g, n, yes: (volta.where(yes, g * n, -g), None, None, None))
    assert op.check(device)
    x, yes = volta.tensor([1.0, 2.0], device=device), volta.tensor([True, False], device=device)
    assert op(x, 3, yes, volta.tensor([[5]], dtype=volta.uint8, device=device)).tolist() == [[4.0, -2.0]]
    for bad, text in (((x, 2.5, yes, 1), "mix: n must be integer, got float"), ((x, 2, x, 1), "mix: yes must be bool, got float32"),
                      ((x, x, yes, 1), "mix: n must be integer, got float32")):
        with pytest.raises(DTypeError, match=text):
            op(*bad)


def test_integers_and_bools(device):
    bits = volta.kernel("fn bits(x: i32, y: i32) -> i32 { return (x & y) + 1; }", cpu=lambda x, y: (x & y) + 1)
    nor = volta.kernel("fn nor(x: bool, y: bool) -> bool { return !(x || y); }", cpu=lambda x, y: ~(x | y))
    assert bits.check(device) and nor.check(device)
    assert bits(volta.tensor([255], dtype=volta.uint8, device=device), 255).tolist() == [0]
    with pytest.raises(DTypeError, match="bits: needs integer tensors, got float32"):
        bits(volta.ones(2, device=device), 1)


def test_several_results(device):
    def gradient(g_sine, g_cosine, sine, cosine):
        parts = [g * d for g, d in ((g_sine, cosine), (g_cosine, -sine)) if g is not None]
        return sum(parts[1:], parts[0])
    op = volta.kernel("struct Both { sine: f32, cosine: f32, up: bool }\n"
                      "fn both(x: f32) -> Both { return Both(sin_accurate(x), cos_accurate(x), x > 0.0); }",
                      cpu=lambda x: (np.sin(x), np.cos(x), x > 0), grad=gradient)
    assert op.check(device)
    sine, cosine, up = op(volta.tensor([0.0, 1.0], device=device))
    with pytest.raises(ArgumentError, match="kernel: pair: grad must take g_b, None where an output has no gradient"):
        volta.kernel("struct Pair { a: f32, b: f32 } fn pair(x: f32) -> Pair { return Pair(x, x); }", grad=lambda g_a: g_a)
    assert up.dtype is volta.bool and up.tolist() == [False, True] and cosine[0].item() == 1.0 and sine.shape == (2,)


def test_a_ufunc_and_an_input_as_the_result():
    op = volta.kernel("fn same(x: f32) -> f32 { return x; }", cpu=np.positive, grad=lambda g: g)
    assert op.check("cpu")
    view = volta.kernel("fn itself(x: f32) -> f32 { return x; }", cpu=lambda x: x)
    x = volta.ones(3)
    y = view(x)
    x.zero_()
    assert y.tolist() == [1.0, 1.0, 1.0]


# ---------------------------------------------------------------- derivatives
def test_first_and_second_derivatives_stay_on_the_device(gpu):
    op = swish()
    x, beta = volta.randn(5, device=gpu, requires_grad=True), volta.ones((), device=gpu, requires_grad=True)
    with volta.gpu.forbid_transfers():
        first, of_beta = volta.autograd.grad(op(x, beta).sum(), (x, beta), create_graph=True)
        second, = volta.autograd.grad(first.sum(), x)
    assert of_beta.shape == () and second.device.is_gpu
    host, b = x.detach().cpu().double().requires_grad_(), volta.ones((), dtype=volta.float64)
    expected, = volta.autograd.grad(volta.autograd.grad(op(host, b).sum(), host, create_graph=True)[0].sum(), host)
    volta.testing.assert_close(second.cpu(), expected.float(), 1e-4, 1e-5)


def test_a_derivative_that_is_another_kernel(device):
    slope = volta.kernel("fn cube_slope(x: f32) -> f32 { return 3.0 * x * x; }", cpu=lambda x: 3 * x * x, grad=lambda g, x: 6 * g * x)
    cube = volta.kernel("fn cube(x: f32) -> f32 { return x * x * x; }", cpu=lambda x: x * x * x, grad=lambda g, x: g * slope(x))
    assert cube.check(device) and slope.check(device)


def test_wrong_derivatives_are_found_and_refused():
    with pytest.raises(AssertionError, match="swish on cpu: finite differences, float64, sample 0: GradcheckError: gradcheck: input 0"):
        swish(grad=lambda g, x: (g * x, g * x)).check("cpu")
    x = volta.ones(2, 3, requires_grad=True)
    for grad, text in ((lambda g: g, "swish: grad must give a gradient or None for each of x, beta, got 1 values"),
                       (lambda g: (g, g, g), "for each of x, beta"),
                       (lambda g: (1.0, None), "the gradient of x must be a tensor or None, got float"),
                       (lambda g: (g[0], None), r"the gradient of x has shape \(3,\), the tensor that it belongs to \(2, 3\)")):
        with pytest.raises(AutogradError, match=text):
            swish(grad=grad, replace=True)(x, 1.0).sum().backward()
    with pytest.raises(ArgumentError, match="kernel: swish: grad asks for 'y'; there are beta"):
        swish(grad=lambda g, y: (g, g), replace=True)
    assert swish(grad=lambda g, shapes, needs: (g, None), replace=True)(x, 1.0).requires_grad
    with pytest.raises(ArgumentError, match="swish: grad has 1 functions for the inputs x, beta"):
        swish(grad=(lambda g: g,), replace=True)


def test_without_a_derivative(device):
    op = swish(grad=None)
    assert op.check(device)
    x = volta.ones(3, device=device, requires_grad=True)
    with pytest.raises(AutogradError, match=r"swish: has no derivative; declare it with volta.kernel\(..., grad=...\)"):
        (op(x, 1.0) + x).sum().backward()


def test_a_saved_input_that_changed_raises():
    op, x = swish(), volta.ones(3, requires_grad=True)
    y = x * 1
    out = op(y, 1.0)
    y.zero_()
    with pytest.raises(AutogradError, match="swish: a tensor of shape"):
        out.sum().backward()


# ---------------------------------------------------------------- compute shaders
def test_a_compute_shader(device):
    op = scaled_outer()
    assert op.check(device)
    a, b = volta.arange(6.0, device=device)[::2], volta.arange(40.0, device=device)[3:5]
    assert op(a, b, scale=2).tolist() == [[0.0, 0.0], [12.0, 16.0], [24.0, 32.0]]
    with pytest.raises(DTypeError, match="scaled_outer: b must be float16, got float32"):
        op(a.half(), b, scale=2)
    with pytest.raises(DTypeError, match="scaled_outer: b must be a tensor, got float"):
        op(a, 1.0, scale=2)
    for params, text in (({}, "missing a required .*argument: 'scale'"), ({"scale": 1, "size": 2}, "unexpected keyword argument 'size'")):
        with pytest.raises(ArgumentError, match=f"scaled_outer: takes a, b and the parameters .*{text}"):
            op(a, b, **params)
    with pytest.raises(ArgumentError, match="scaled_outer: takes a, b, got 1 of 2"):
        op(a, scale=1)


def test_a_shader_under_forbid_transfers(gpu):
    op = scaled_outer()
    a = volta.ones(4, device=gpu, requires_grad=True)
    with volta.gpu.forbid_transfers():
        op(a, a, scale=3.0).sum().backward()
    assert a.grad.tolist() == [24.0] * 4


def test_parameters_and_grid_from_functions(device):
    text = ONE + ("struct Params { columns: u32, by: i32, weights: vec4<f32> }\nvar<immediate> p: Params;\n"
                  "@compute @workgroup_size(8, 4) fn roll_rows(@builtin(global_invocation_id) at: vec3<u32>) {\n"
                  "    let rows = arrayLength(&x) / p.columns;\n    if (at.x >= p.columns || at.y >= rows) { return; }\n"
                  "    let from_ = (i32(at.x) - p.by + i32(p.columns)) % i32(p.columns);\n"
                  "    y[at.y * p.columns + at.x] = p.weights.y * x[at.y * p.columns + u32(from_)];\n}")
    op = volta.kernel(text, outputs=lambda x, by: x, workgroups=lambda x, by: (-(-x[1] // 8), -(-x[0] // 4)),
                      params=lambda x, by=1: (x[1], by, (0.0, 2.0, 0.0, 0.0)), cpu=lambda x, by: 2 * np.roll(x, by, 1),
                      grad=lambda g, by: (op(g, by=-by),), samples=[((9, 13), {"by": 2}), ((1, 5), {"by": -1})])
    assert op.check(device)
    x = volta.arange(6.0, device=device).reshape(2, 3)
    assert op(x).tolist() == [[4.0, 0.0, 2.0], [10.0, 6.0, 8.0]] == op(x, by=1).tolist()


def test_integers_several_outputs_and_zeros(device):
    text = ("@group(0) @binding(0) var<storage, read> label: array<i32>;\n@group(0) @binding(1) var<storage, read> keep: array<u32>;\n"
            "@group(0) @binding(2) var<storage, read_write> count: array<atomic<i32>>;\n"
            "@group(0) @binding(3) var<storage, read_write> share: array<f32>;\n"
            "@compute @workgroup_size(64) fn tally(@builtin(global_invocation_id) at: vec3<u32>) {\n"
            "    if (at.x < arrayLength(&label) && keep[at.x] != 0u) { atomicAdd(&count[label[at.x]], 1); }\n}")
    op = volta.kernel(text, outputs=lambda label, keep: ((4,), (2, 2)), workgroups=lambda label, keep: label[0] // 64 + 1,
                      cpu=lambda label, keep: (np.bincount(label[keep], minlength=4), np.zeros((2, 2), np.float32)))
    label, keep = volta.tensor([0, 3, 3, 1], device=device), volta.tensor([True, True, True, False], device=device)
    count, share = op(label, keep)
    assert count.tolist() == [1, 0, 0, 2] and count.dtype is volta.int64 and share.tolist() == [[0.0, 0.0]] * 2


def test_an_index_out_of_bounds_stays_harmless(gpu):
    """It reaches nothing beyond the tensor: not what lies beside a view, nor what was in the memory of the output before."""
    op = volta.kernel(ONE + "var<private> mine: array<f32, 4>;\nvar<workgroup> ours: array<f32, 4>;\n"
                      "@compute @workgroup_size(1) fn astray(@builtin(workgroup_id) group: vec3<u32>) {\n"
                      "    let far = arrayLength(&x) + group.x * 977u * 977u;\n"
                      "    y[far + 1u] = 5.0;\n    mine[far] = 3.0;\n    ours[far] = 3.0;\n"
                      "    if (group.x == 3u) { y[0] = x[far]; y[1] = f32(arrayLength(&x)); y[2] = mine[far] - 3.0; }\n}",
                      outputs=lambda x: x, workgroups=lambda x: 4000)
    whole = volta.full((256 + 8,), 7.0, device=gpu)
    whole[128:136] = 1.0
    result = op(whole[128:136]).tolist()
    assert result[0] in (0.0, 1.0) and result[1:3] == [8.0, 0.0] and set(result[3:]) <= {0.0, 5.0}
    expected = [7.0] * 128 + [1.0] * 8 + [7.0] * 128
    assert whole.tolist() == expected


# ---------------------------------------------------------------- what is refused
@pytest.mark.parametrize("text, message", [
    ("fn f(x: f32) -> f32 {\n  let y = x +;\n  return y;\n}", r"f.wgsl line 2: let y = x \+;\n(.|\n)*expected expression"),
    ("fn f(x: f32) -> f32 { return nothing(x); }", "f.wgsl line 1: (.|\n)*no definition in scope for identifier: `nothing`"),
    ("fn f(x: f32) -> f32 { return 1u; }", "f.wgsl line 1: (.|\n)*does not match the declared return type"),
    ("fn f(x: f32) -> f32 { return f(x); }", "declaration of `f` is recursive"),
    (ONE + "@compute @workgroup_size(64) fn f() { y[0] = = x[0]; }", "f.wgsl line 3: (.|\n)*expected expression"),
    (ONE + "@compute @workgroup_size(100000) fn f() { y[0] = x[0]; }", "Workgroup size is out of range"),
    (ONE + "override n: u32;\n@compute @workgroup_size(64) fn f() { y[0] = x[n]; }", "Missing value for pipeline-overridable constant"),
    (ONE + "@group(0) @binding(2) var<uniform> u: vec4<f32>;\n@compute @workgroup_size(64) fn f() { y[0] = u.x; }",
     "missing from the pipeline"),
])
def test_what_does_not_compile(gpu, text, message):
    op = volta.kernel(text, outputs=(lambda x: x) if "@compute" in text else None)
    with pytest.raises(DeviceError, match=message):
        op(volta.ones(4, device=gpu))
    assert volta.ones(2, device=gpu).sum().item() == 2


@pytest.mark.parametrize("text, message", [
    ("let x = 1;", "the text has no function"),
    ("fn f() -> f32 { return 1.0; }", "f: each parameter must be f32, i32, u32 or bool, got none"),
    ("fn f(x: vec4<f32>) -> f32 { return x.x; }", "each parameter must be f32, i32, u32 or bool, got x: vec4<f32>"),
    ("fn f(x: f32) { }", "each result must be f32, i32, u32 or bool, got out: nothing"),
    ("fn is_nan(x: f32) -> bool { return true; }", "declares is_nan, a name of the code around it"),
    ("const p = 1.0;\nfn f(x: f32) -> f32 { return p; }", "f declares p, a name of the code around it"),
    ("fn f(shapes: f32) -> f32 { return shapes; }", "an input cannot be called needs or shapes"),
    ("@group(0) @binding(0) var<storage, read> x: array<f32>;\nfn f(x: f32) -> f32 { return x; }", "f declares buffers"),
    (ONE + "@compute @workgroup_size(1) fn f() {}\n@compute @workgroup_size(1) fn g() {}",
     r"must have one @compute entry point, got \['f', 'g'\]"),
    (ONE.replace("write> y: array<f32>", "write> y: array<u32>") + "@compute @workgroup_size(1) fn f() {}", "got y: array<u32>"),
    (ONE.splitlines()[0] + "@compute @workgroup_size(1) fn f() {}", r"f needs an input.* got \['x'\]"),
    ("fn f(x: f32) -> f32 { return " + "(" * 5000 + "x" + ")" * 5000 + "; }", "brackets may be nested 256 deep"),
    ("fn f(x: f32) -> f32 { return x" + " + x" * 20000 + "; }", "a statement may have 4000 words and signs"),
])
def test_texts_that_are_refused(text, message):
    with pytest.raises(ArgumentError, match=message):
        volta.kernel(text, outputs=(lambda x: x) if "@compute" in text else None)


def test_outputs_belong_to_shaders():
    for call in (lambda: volta.kernel(OUTER), lambda: swish(outputs=lambda x, beta: x), lambda: swish(params=lambda x, beta: ())):
        with pytest.raises(ArgumentError, match="outputs= is needed for a shader with an @compute entry point"):
            call()


@pytest.mark.parametrize("given, message", [
    ({"cpu": "x"}, "cpu= must be a function, got str"), ({"grad": 5}, "grad= must be a function, or a tuple"),
    ({"grad": (5,)}, "grad= must be a function, or a tuple"), ({"cpu": abs, "samples": 5}, "samples must be a tuple of tuples"),
    ({"cpu": abs, "samples": (3,)}, "samples must be a tuple of tuples")])
def test_what_is_no_function(given, message):
    with pytest.raises(ArgumentError, match=f"kernel: refused: {message}"):
        volta.kernel("fn refused(x: f32) -> f32 { return x; }", **given)


def test_names():
    op = swish()
    assert RECORDS["swish"] is op and pickle.loads(pickle.dumps(op)) is op
    with pytest.raises(ArgumentError, match="there is an op swish already; give the function another name, or pass replace=True"):
        swish()
    assert RECORDS["swish"] is op is not swish(replace=True)
    for name in ("exp", "conv2d_grad_input"):
        with pytest.raises(ArgumentError, match=f"there is an op {name} already; give the function another name$"):
            volta.kernel(f"fn {name}(x: f32) -> f32 {{ return x; }}", replace=True)


@pytest.mark.parametrize("cpu, error, text", [
    (lambda x, beta: x[:1] + beta[:1], ShapeError, r"swish: the cpu function gave out of shape \(1, 3\), needed \(2, 3\)"),
    (lambda x, beta: x + 1j, DTypeError, "gave out of complex64, needed float32; convert it with .astype"),
    (lambda x, beta: None, DTypeError, "gave out of object, needed float32"),
    (lambda x, beta: (x, beta), ArgumentError, "the cpu function gave 2 results, needed out"),
    (lambda x, beta: x.__iadd__(1), ValueError, "read-only"),
])
def test_what_the_cpu_function_may_not_give(cpu, error, text):
    op, x = swish(cpu=cpu), volta.ones(2, 3)
    with pytest.raises(error, match=text):
        op(x, volta.ones(3))
    assert x.tolist() == [[1.0] * 3] * 2


def test_without_a_function_for_the_cpu():
    op = swish(cpu=None)
    with pytest.raises(DeviceError, match=r"swish: has no function for the CPU; declare it with volta.kernel\(..., cpu=...\)"):
        op(volta.ones(2), 1.0)
    with pytest.raises(ArgumentError, match="swish.check: there is nothing to compare; declare it with cpu= and samples="):
        op.check()


def test_without_a_gpu():
    """It is declared, called and checked; declaring loads nothing of wgpu."""
    code = ("import sys, numpy as np, volta\n"
            "op = volta.kernel('fn twice(x: f32) -> f32 { return x + x; }', cpu=lambda x: x + x, grad=lambda g: g + g)\n"
            "assert op(volta.ones(2)).tolist() == [2.0, 2.0] and 'wgpu' not in sys.modules\n"
            "assert not volta.gpu.is_available() and op.check()")
    environment = {**os.environ, "VOLTA_ADAPTER": "no such adapter", "VOLTA_REQUIRE_GPU": "0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_shapes_arguments_and_samples_that_do_not_fit(device):
    op = swish()
    with pytest.raises(ShapeError, match=r"swish: shapes \(2,\) and \(3,\) do not broadcast"):
        op(volta.ones(2, device=device), volta.ones(3, device=device))
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        op(volta.ones(2, device=device), 1.0, scale=2)
    with pytest.raises(ArgumentError, match="kernel: a sample gives 2 inputs"):
        swish(samples=[((3,),)], replace=True)
    wrong = volta.kernel(ONE + "@compute @workgroup_size(1) fn below_zero() {}", outputs=lambda x: (-1,), cpu=lambda x: x)
    with pytest.raises(ShapeError, match="sizes must not be negative"):
        wrong(volta.ones(2, device=device))


def test_the_self_test_shows_it(device):
    swish()
    (outcome,) = selftest([device], ops=["swish"], quick=True)
    assert outcome.checks > 4 and not outcome.failures


def test_watchers_see_it(device):
    op, seen = swish(), []

    class Tape(volta._kernels.core.call.Observer):
        def before(self, op, device, inputs, params, out):
            seen.append(op.name)
    x = volta.ones(3, device=device)
    with Tape():
        op(x, 1.0)
    assert seen == ["swish"]

