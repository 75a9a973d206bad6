"""Grad modes: what they switch, and that an interrupt at any moment leaves the mode as it was."""
import subprocess
import sys
import threading

import pytest

import volta
from volta.errors import ArgumentError, AutogradError

on = volta.is_grad_enabled


def test_context_managers():
    for manager, inside in ((volta.no_grad, False), (volta.enable_grad, True), (volta.inference_mode, False),
                            (lambda: volta.inference_mode(False), True), (lambda: volta.set_grad_enabled(False), False),
                            (lambda: volta.set_grad_enabled(True), True)):
        for outside in (True, False):
            with volta.set_grad_enabled(outside):
                with manager() as entered:
                    assert on() is inside and entered is None
                assert on() is outside
                with pytest.raises(KeyError):
                    with manager():
                        raise KeyError
                assert on() is outside
    assert on()


def test_one_object_nested_and_used_again():
    mode = volta.no_grad()
    for _ in range(2):
        with mode:
            with volta.enable_grad():
                with mode:
                    assert not on()
                assert on()
            assert not on()
        assert on()


def test_at_once():
    volta.set_grad_enabled(False)
    assert not on()
    switched = volta.set_grad_enabled(True)
    assert on()
    with switched:
        assert on()
    assert not on()             # what it was before the object was made
    volta.set_grad_enabled(mode=True)
    kept = volta.no_grad()
    kept.__enter__()
    del kept                    # entered by hand: as in PyTorch it stays
    assert not on()
    volta.set_grad_enabled(True)


def test_an_exception_before_the_block_withdraws_the_switch():
    """What an interrupt between the making of the object and its block does: the object dies while the stack unwinds."""
    with pytest.raises(ZeroDivisionError):
        (volta.set_grad_enabled(False), 1 / 0)
    assert on()


def test_decorators():
    for decorator in (lambda: volta.no_grad, volta.no_grad, lambda: volta.inference_mode, volta.inference_mode,
                      lambda: volta.set_grad_enabled(False)):
        class Model:
            @decorator()
            def f(self, x, *, y):
                """Text."""
                return on(), x, y
        assert Model().f(1, y=2) == (False, 1, 2) and Model.f.__doc__ == "Text." and on()
    assert volta.enable_grad(on)() and volta.no_grad(volta.enable_grad(on))() and volta.set_grad_enabled(True)(on)()

    @volta.no_grad
    def fails():
        raise KeyError("x")
    with pytest.raises(KeyError):
        fails()
    assert on()


def test_modes_belong_to_threads():
    seen = []
    with volta.no_grad():
        thread = threading.Thread(target=lambda: seen.append(on()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_wrong_arguments():
    for call, text in ((lambda: volta.no_grad(3), "no_grad: function must be a function to decorate, got 3"),
                       (lambda: volta.enable_grad("x"), "enable_grad: function must be a function to decorate, got 'x'"),
                       (lambda: volta.no_grad()(5), "no_grad: function must be a function to decorate, got 5")):
        with pytest.raises(ArgumentError) as error:
            call()
        assert text in str(error.value)


_INTERRUPTED = """
import random, signal, sys, time
import volta
from volta.autograd import Function

random.seed(int(sys.argv[2]))
on, x = volta.is_grad_enabled, volta.ones(2, requires_grad=True)
limit = [None]
signal.signal(signal.SIGALRM, signal.default_int_handler)

def enter():
    while True:
        with volta.no_grad():
            pass

def nested():
    while True:
        with volta.no_grad():
            with volta.enable_grad():
                pass
            with volta.inference_mode():
                pass

@volta.no_grad
def once():
    pass

def decorated():
    while True:
        once()

def switched():
    while True:
        with volta.set_grad_enabled(False):
            pass

class Own(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

def custom():
    while True:
        Own.apply(x).sum().backward()

interrupts, bad = 0, 0
end = time.monotonic() + 0.8
while time.monotonic() < end:
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-4))
            globals()[sys.argv[1]]()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
    interrupts += 1
    if not on():
        bad += 1
        volta.set_grad_enabled(True)
print(interrupts, bad)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="interval timers")
@pytest.mark.parametrize("body", ["enter", "nested", "decorated", "switched", "custom"])
def test_an_interrupt_at_any_moment_leaves_the_mode_as_it_was(body):
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED, body, "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    interrupts, bad = map(int, done.stdout.split())
    assert interrupts > 100 and bad == 0, (interrupts, bad)


def test_views_made_without_recording(device):
    """As in PyTorch they want a gradient where what they show does, which gets none from them; a recorded change of them is refused."""
    x = volta.ones(2, 2, device=device, requires_grad=True)
    for base in (x, x * 2):
        with volta.no_grad():
            view, copy = base[0], base[0].clone()
            view.view(-1).mul_(1.0)
        assert view.requires_grad and view.is_leaf and view.grad_fn is None and not copy.requires_grad
        (view * 3).sum().backward()
        assert x.grad is None
        with pytest.raises(AutogradError, match="view made under no_grad"):
            view.mul_(2)
        with pytest.raises(AutogradError, match="detach_: a view"):
            view.detach_()
    with volta.no_grad():
        view = volta.ones(2, device=device)[:1]
    assert not view.requires_grad and view.mul_(2).tolist() == [2.0]


@pytest.mark.parametrize("name, part", [("split", lambda x: x.split(1)[0]), ("chunk", lambda x: x.chunk(2)[0]),
                                        ("unbind", lambda x: next(iter(x))), ("split", lambda x: x.split([1, 1])[0][:])])
def test_one_of_several_views_is_not_changed(device, name, part):
    """As in PyTorch, where that would be recorded; `tensor_split` and the "unsafe" functions give others."""
    for make in (lambda: volta.ones(2, device=device, requires_grad=True), lambda: volta.ones(2, device=device, requires_grad=True) * 2):
        view = part(make())
        with pytest.raises(AutogradError, match=f"view: output 0 of {name}, of shape .* is one of several views that one call gave"):
            view.mul_(2)
        with volta.no_grad():
            view.mul_(2)
    x = volta.ones(2, device=device, requires_grad=True) * 2
    view = part(x)
    x.mul_(3)
    with pytest.raises(AutogradError, match="another view of its base, was changed in place"):
        view * 2
    x = volta.ones(2, device=device)
    part(x).mul_(2)
    assert x.tolist() == [2.0, 1.0]
    leaf = volta.ones(2, device=device, requires_grad=True)
    first = (leaf * 2).tensor_split(2)[0]
    first.mul_(3)
    unsafe = leaf.unsafe_split(1)[0]
    unsafe.mul_(3)
    (first + unsafe + volta.unsafe_chunk(leaf, 2)[1].mul_(2)).sum().backward()
    assert leaf.grad.tolist() == [9.0, 2.0]


def test_generators_run_under_the_mode_and_their_callers_do_not():
    for manager, inside in ((volta.no_grad, False), (volta.inference_mode, False), (lambda: volta.set_grad_enabled(False), False)):
        log = []

        @manager()
        def numbers(log=log):
            log.append(on())
            given = yield 1
            log.append((on(), given))
            try:
                yield 2
            except ValueError:
                log.append(on())
            try:
                yield 3
            finally:
                log.append(on())
        found = numbers()
        assert next(found) == 1 and on() and found.send("a") == 2 and on() and found.throw(ValueError()) == 3 and on()
        found.close()
        assert on() and log == [inside, (inside, "a"), inside, inside] and volta.enable_grad(numbers)().__next__() == 1

    @volta.no_grad
    def last():
        yield on()
        return "end"

    def outer():
        return (yield from last())
    found = outer()
    assert next(found) is False
    with pytest.raises(StopIteration, match="end"):
        next(found)
