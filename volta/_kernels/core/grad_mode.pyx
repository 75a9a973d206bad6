# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The grad mode of each thread, and context managers for it that an interrupt cannot split. Knows no graph.

Python raises KeyboardInterrupt between two instructions of Python code, never inside C code. So entering, leaving and a decorated
call are one C function each. An interrupt can still come after such a function and before its caller holds the result (when
`set_grad_enabled` returns; from Python 3.14 on, between __enter__ and the body): the object then dies while an exception
unwinds the stack, and restores what it switched.
"""
cimport cython

from volta._kernels.core.switches cimport switched

cdef extern from *:
    """
    VOLTA_PER_THREAD int volta_grad_mode = 1;

    static int volta_unwinding = 0;                 /* does the object die because of an exception? under the GIL */
    static destructor volta_dealloc_of_cython = NULL;
    static void volta_dealloc(PyObject *o) {        /* Cython hides the exception from __dealloc__ */
        int outer = volta_unwinding;
        volta_unwinding = PyErr_Occurred() != NULL;
        volta_dealloc_of_cython(o);
        volta_unwinding = outer;
    }
    static void volta_watch_deaths(PyObject *type) {
        destructor own = ((PyTypeObject *)type)->tp_dealloc;
        if (own != volta_dealloc) volta_dealloc_of_cython = own;
        ((PyTypeObject *)type)->tp_dealloc = volta_dealloc;
    }
    """
    int volta_grad_mode
    int volta_unwinding
    void volta_watch_deaths(object)
    unsigned long PyThread_get_thread_ident()


cdef int grad_mode() noexcept:
    return volta_grad_mode


cdef int switch_grad_mode(int enabled) noexcept:
    """Switch recording in this thread; gives the previous setting."""
    return switched(&volta_grad_mode, enabled)


def set_grad_mode(bint enabled):
    """Switch recording in this thread; gives the previous setting."""
    return switch_grad_mode(enabled) != 0


@cython.no_gc
cdef class GradMode:
    """Recording on or off inside a `with` block; with `at_once` from the making of this object on."""
    cdef readonly bint mode
    cdef bint at_once, before                   # switched when made; the mode before that
    cdef object outer                           # the modes outside of the blocks that this entered, a bit each, the latest lowest
    cdef int depth                              # number of those bits
    cdef unsigned long thread

    def __cinit__(self, bint mode, bint at_once=False):
        self.mode, self.at_once, self.outer, self.depth = mode, at_once, 0, 0
        self.thread = PyThread_get_thread_ident()
        self.before = switch_grad_mode(mode) if at_once else mode

    def __enter__(self):
        self.thread = PyThread_get_thread_ident()
        self.outer = self.outer << 1 | switch_grad_mode(self.mode)
        self.depth += 1

    def __exit__(self, *exc):
        self.depth -= 1
        switch_grad_mode(self.before if self.at_once and not self.depth else self.outer & 1)
        self.outer = self.outer >> 1
        self.at_once = self.at_once and self.depth

    def withdraw(self):
        """Undo what `at_once` switched."""
        if self.at_once:
            self.at_once = False
            switch_grad_mode(self.before)

    def __dealloc__(self):
        if volta_unwinding and (self.depth or self.at_once) and self.thread == PyThread_get_thread_ident():
            switch_grad_mode(self.before if self.at_once else (self.outer >> (self.depth - 1)) & 1)


volta_watch_deaths(GradMode)


def call_under(bint mode, function, tuple args, dict kwargs):
    """function(*args, **kwargs) with recording on or off meanwhile."""
    previous = switch_grad_mode(mode)
    try:
        return function(*args, **kwargs)
    finally:
        switch_grad_mode(previous)
