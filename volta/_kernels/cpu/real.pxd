# The two dtypes of what has no kernels for others: a module that needs no more is spared the C of vectors.
ctypedef fused real:
    float
    double
