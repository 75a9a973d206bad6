"""The records of the op table, a file per family; the functions over them are the modules of `volta.ops`."""
