"""Work on tensors larger than one binding of a GPU: in parts that fit.

`Kernel` in `volta/_kernels/gpu/launch.pyx` compares operands and the plan's buffers with the limit before anything is recorded. Beyond it
the kernel's `cut(run, *operands, **params)` halves the work along some dimension, calls `run` on copies of both halves, which may be cut
again, and joins the results. `cut.py` has the pieces, `images.py` convolution and pooling, `reductions.py` reductions and softmax,
`rows.py` everything else. They know which dimension of each operand may be cut, and the kernels of the op table by name; not how a
kernel computes. Kernels that read or write element by element need no cut: their plans bind windows of large tensors (../map.py for what
is elementwise, ../index.py, ../update.py).
"""
