// prelude/index: places that entries name. No bindings, no entry point.

// Of entry k of an index [outer, entries, inner], which says `row`: the element of [outer, size, inner].
fn place_of(k: u32, row: u32, inner: u32, entries: u32, size: u32) -> u32 {
    let line = k / inner;
    return (line / entries * size + row) * inner + k - line * inner;
}
