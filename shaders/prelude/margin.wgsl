// prelude/margin: by how much scores come within a margin of the label's. No bindings, no entry point.

// far + v of each element where that is above 0, else 0, also where it is NaN; 0 for the label and for what is beyond `width`.
fn margin_terms(v: vec4<f32>, far: f32, width: u32, label: u32) -> vec4<f32> {
    let columns = vec4<u32>(0u, 1u, 2u, 3u);
    let z = far + v;
    let bits = bitcast<vec4<i32>>(z);
    let counts = (columns < vec4<u32>(width)) & (columns != vec4<u32>(label)) & (bits > vec4<i32>()) & (bits <= vec4<i32>(0x7f800000));
    return select(vec4<f32>(), z, counts);
}
