"""Work on tensors larger than one binding of a GPU: in parts that fit.

What a kernel is given is compared with the limit before anything is recorded (`Kernel` in `volta/_kernels/gpu/launch.pyx`, from the
plan's buffers; `Guard` for kernels without plans). Beyond it the kernel's `cut(run, *operands, **params)` halves the work along some
dimension, calls `run` on copies of both halves, which may be cut again, and joins the results. `cut.py` has the pieces, `images.py`
convolution and pooling, `rows.py` everything else. They know which dimension of each operand may be cut, and the kernels of the op
table by name; not how a kernel computes.
"""
