# cython: language_level=3
"""A kernel that may refuse a call, and what is done then. A call that is not refused costs some tens of nanoseconds more.

Knows no kernel; the backends say which errors are refusals and what follows them.
"""


cdef class Fallback:
    """`kernel`; where it raises one of the classes `refusals`, `instead(error, inputs, params)` gives the result or raises."""

    cdef readonly object kernel, instead
    cdef readonly tuple refusals

    def __init__(self, kernel, tuple refusals not None, instead):
        self.kernel, self.refusals, self.instead = kernel, refusals, instead

    def __call__(self, *inputs, **params):
        cdef object error
        try:
            return self.kernel(*inputs, **params)
        except self.refusals as refused:
            error = refused
        return self.instead(error, inputs, params)

    def __repr__(self):
        return f"<{self.kernel!r} with a fallback>"
