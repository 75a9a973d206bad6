"""torch.futures: results that are awaited, of functions that other threads run."""
from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that may still have to come. `devices` are not needed: a tensor's device orders its own work."""

    def __init__(self, *, devices: Any = None) -> None:
        self._result: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._result.done()

    def wait(self) -> T:
        """The result, once it is there. Raises: the error that was set."""
        return self._result.result()

    def value(self) -> T:
        """The result. Raises: RuntimeError while there is none, and the error that was set."""
        if not self.done():
            raise RuntimeError("Future.value: there is no result yet; call wait()")
        return self._result.result()

    def set_result(self, result: T) -> None:
        """Give it its result. Raises: RuntimeError where it has one."""
        if self.done():
            raise RuntimeError("Future.set_result: it has a result or an error already")
        self._result.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Give it an error, which `wait` and `value` raise."""
        if not isinstance(result, Exception):
            raise TypeError(f"Future.set_exception: needs an Exception, got {result!r}")
        self._result.set_exception(result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call this with the future when it is done, now if it is."""
        self._result.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """The future of what `callback` gives for this one when it is done."""
        following: Future[S] = Future()

        def go_on(done: Future[T]) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:              # what the callback raises is what the new future raises
                following.set_exception(error)
        self.add_done_callback(go_on)
        return following


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future of these futures, done when all are."""
    together: Future[list[Future[Any]]] = Future()
    waiting = {id(each) for each in futures}
    if not futures:
        together.set_result([])

    def one(done: Future[Any]) -> None:
        waiting.discard(id(done))
        if not waiting and not together.done():
            together.set_result(futures)
    for each in futures:
        each.add_done_callback(one)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The results of these futures, once all are there. Raises: the first error."""
    return [each.wait() for each in collect_all(futures).wait()]
