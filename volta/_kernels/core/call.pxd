# Calling kernels: the one place where a kernel is chosen by device, and what must hold before.
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_GET_SIZE

from volta._kernels.core.base cimport BFLOAT16, FLOAT16, STORED_MASK, DType, Device, TensorBase, rare
from volta._kernels.core.order cimport Order, copied_as, order_of, restored, scattered, suggest_pixels
from volta._kernels.core.record cimport Primitive

cdef extern from "Python.h":
    object PyObject_Call(object function, tuple args, PyObject* options)
    Py_ssize_t PyDict_GET_SIZE(dict)

cdef int watching                           # how many observers there are, see Observer

ctypedef TensorBase (*view_t)(TensorBase x, dict params)

cdef class View:
    # The kernel of a view, of a tensor on any device: a function of C, given the parameters without unpacking them.
    cdef view_t shown

cdef View as_view(view_t shown)

cdef tuple before(tuple call)
cdef int after(tuple present, tuple call, object result) except -1
cdef bint is_stored(Primitive op, tuple inputs, dict params, int own) except -1
cdef object widened(Primitive op, Device device, object kernel, tuple inputs, dict params, TensorBase out)
cdef object lay_by_pixels(Device device, object result)
cdef int count_writes(Primitive op, tuple inputs) except -1
cdef object kernel_of_meta(Primitive op)
cdef object replaced(Primitive op, tuple inputs, dict params)
cdef tuple adapted(Primitive op, tuple inputs)
cdef int switch_adapting(int enabled) noexcept
cdef tuple promoted(Primitive op, tuple inputs)
cdef DType common_dtype(Primitive op, tuple inputs)
cdef int refuse_dtype(Primitive op, int code) except -1
cdef int refuse_bool(Primitive op, tuple inputs) except -1
cdef int check_dtypes(Primitive op, tuple inputs) except -1
cdef tuple broadcast(Primitive op, tuple inputs)


cdef inline object kernel_for(Primitive op, Device device):
    """The kernel of a device, to be called unwatched."""
    return op.cpu if not device.is_gpu else kernel_of_meta(op) if device.is_meta else op.gpu


cdef inline object call_kernel(Primitive op, Device device, tuple inputs, dict params, TensorBase out):
    """Run the op's kernel of a device. `out` is written into by an elementwise op; else None. Versions of what is written grow.

    IN: tensors of that device, with the dtypes that the record declares; params None or the kernel's keywords.
    """
    cdef object kernel, result
    cdef int own
    cdef tuple present = None, given = inputs
    cdef Order order = None
    cdef bint pixels = op.pixels and out is None and suggest_pixels(op.pixels, inputs)
    if watching:
        present = before((op, device, inputs, params, out))
    if op.pointwise and out is None and scattered(inputs):
        order = order_of(inputs)
        if order is not None:
            inputs = order.inputs
    if device.is_gpu:
        kernel = op.gpu if not device.is_meta else kernel_of_meta(op)
        own = op.gpu_own if not device.is_meta else STORED_MASK
    else:
        kernel = op.cpu
        own = op.cpu_own
    if own != STORED_MASK and (rare or not own >> FLOAT16 & 1 or device.is_gpu and params and not own >> BFLOAT16 & 1) and is_stored(
            op, inputs, params, own):
        result = widened(op, device, kernel, inputs, params, out)
    elif op.is_view and type(kernel) is View:
        result = (<View>kernel).shown(<TensorBase?>inputs[0], params)
    elif out is None:                               # without copying the parameters
        result = PyObject_Call(kernel, inputs, <PyObject*>params if params is not None and PyDict_GET_SIZE(params) else NULL)
    elif PyTuple_GET_SIZE(inputs) == 2:             # without packing the arguments twice
        result = kernel.into(out, <object>inputs[0], <object>inputs[1])
    else:
        result = kernel.into(out, *inputs)
    if order is not None:
        result = restored(order, result)
    elif pixels:
        result = lay_by_pixels(device, result)
    if op.copies and out is None and not (<TensorBase>given[0]).usual:
        result = copied_as(<TensorBase>given[0], result)
    if out is not None:
        out.storage.version += 1
    elif op.changes:
        count_writes(op, given)
    if present is not None:
        after(present, (op, device, given, params, out), result)
    return result
