# The class of `x.shape`, and the name that dtypes and shapes are printed under.
from cpython.tuple cimport PyTuple_CheckExact

cdef str package                        # "volta"; "torch" under `volta.compat`

# A plain tuple of ints as a Size.
cdef tuple as_size(tuple sizes)
cdef tuple as_plain(object sizes)

cdef inline tuple plain(object sizes):
    """What is a tuple of ints, perhaps a Size, as Cython's `tuple`, which takes no subclass."""
    return <tuple>sizes if PyTuple_CheckExact(sizes) else as_plain(sizes)
