"""Classes of a program's own that are registered as trees, through vmap and derivatives."""
import dataclasses

import torch
import torch.utils._pytree as pytree
from torch.func import grad, jacrev, jvp, vjp, vmap


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: object


pytree.register_dataclass(Pair)


class Scaled:
    def __init__(self, values, factor):
        self.values, self.factor = values, factor


pytree.register_pytree_node(Scaled, lambda tree: (tree.values, tree.factor), lambda values, factor: Scaled(list(values), factor))


class Output(dict):                     # one entry is a child, another is not
    pass


pytree.register_pytree_node(Output, lambda tree: ([tree["x"]], list(tree)), lambda values, keys: Output(dict.fromkeys(keys, *values)))
x, y = torch.arange(6.0).reshape(3, 2), torch.ones(3)
found = vmap(lambda pair: Pair(pair.left * pair.right["y"], (pair.left.sum(),)))(Pair(x, {"y": y}))
assert isinstance(found, Pair) and found.left.tolist() == x.tolist() and found.right[0].tolist() == [1.0, 5.0, 9.0]
slope = grad(lambda tree: (tree.values[0] ** 2 * tree.values[1]).sum() * tree.factor)(Scaled([x, x + 1], 3))
assert isinstance(slope, Scaled) and slope.factor == 3 and torch.equal(slope.values[0], 6 * x * (x + 1))
value, back = vjp(lambda pair: Pair(pair.left * 2, pair.right), Pair(x, y))
assert back(Pair(x, y))[0].left.tolist() == (2 * x).tolist() and value.right.tolist() == y.tolist()
assert jvp(lambda pair: pair.left * pair.right, (Pair(y, y),), (Pair(y, 2 * y),))[1].tolist() == [3.0, 3.0, 3.0]
assert jacrev(lambda pair: pair.left * 3)(Pair(y, y)).left.tolist() == (3 * torch.eye(3)).tolist()
output = vmap(lambda tree: Output(x=tree["x"].sum(), kept="text"))(Output(x=x, kept="text"))
assert type(output) is Output and output["x"].tolist() == [1.0, 5.0, 9.0]
print("done")
