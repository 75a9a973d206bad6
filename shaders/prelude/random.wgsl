// prelude/random: the counter-based generator. No bindings, no entry point.

// ---- Philox 4x32-10: four random words from a 64-bit key and a 128-bit counter.
// ---- Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, table 2.

fn philox(key: vec2<u32>, counter: vec4<u32>) -> vec4<u32> {
    var k = key;
    var c = counter;
    for (var i = 0u; i < 10u; i++) {
        let p = multiply_wide(0xD2511F53u, c.x);
        let q = multiply_wide(0xCD9E8D57u, c.z);
        c = vec4<u32>(q.y ^ c.y ^ k.x, q.x, p.y ^ c.w ^ k.y, p.x);
        k += vec2<u32>(0x9E3779B9u, 0xBB67AE85u);
    }
    return c;
}

// Four words of a draw: `offset` is the draw's 64-bit position (low, high), `block` the element's number / 4.
fn random_words(seed: vec2<u32>, offset: vec2<u32>, block: u32) -> vec4<u32> {
    let low = offset.x + block;
    return philox(seed, vec4<u32>(low, offset.y + select(0u, 1u, low < block), 0u, 0u));
}

// Uniform in [0, 1), multiples of 2^-24.
fn uniform_from_bits(bits: u32) -> f32 {
    return f32(bits >> 8u) * 5.9604645e-8;
}
