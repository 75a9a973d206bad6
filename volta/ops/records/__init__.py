"""The records: each operation's name, derivative, NumPy reference and samples. They import nothing of the functions over them."""
