"""What tests of the GPU runtime share: small shaders, which the fixture `ctx` finds, and buffers."""
from __future__ import annotations

import os
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

HEAD = """
@group(0) @binding(0) var<storage, read> x: array<T>;
@group(0) @binding(1) var<storage, read_write> y: array<T>;
struct Params { count: u32, a: f32, }
var<immediate> p: Params;
"""
MAIN = """
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
        @builtin(local_invocation_index) local: u32) {
    let i = group_index(group, groups) * 64u + local;
    if (i < p.count) { %s }
}
"""
SHADERS = {
    "scale": "alias T = f32;\nconst SHIFT: f32 = 0.0;\nfn op(x: T) -> T { return x; }" + HEAD
    + MAIN % "y[i] = op(x[i]) * T(p.a) + T(SHIFT);",
    "in_place": HEAD.replace("@group(0) @binding(0) var<storage, read> x: array<T>;\n", "alias T = f32;")
    .replace("binding(1)", "binding(0)")
    + MAIN % "y[i] = y[i] + p.a;",
    "groups": "alias T = u32;" + HEAD.replace("a: f32,", "a: u32,") + """
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = group_index(group, groups);
    if (i < p.count) { y[i] = y[i] + i + x[0]; }
}""",
    "words": "alias T = vec4<u32>;" + HEAD + MAIN % "y[i] = philox(x[i].xy, vec4<u32>(x[i].zw, 0u, 0u));",
    "broken": "alias T = f32;" + HEAD + MAIN % "y[i] = nonsense(x[i]);",
    "matrix": "alias T = mat4x4<f32>;" + HEAD + MAIN % "y[i] = x[i] * p.a;",
    "mixed": "alias T = f32;" + HEAD.replace("count: u32, a: f32,", "count: u32, s: vec4<i32>, a: f32, t: vec4<f32>,")
    + MAIN % "y[i] = f32(p.s.x + p.s.w) + p.a + p.t.z;",
}


def run_python(code, **env):
    """Run code in a fresh interpreter; gives its output. Fails on a hang or an abort."""
    full = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **env}
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=full, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def up(ctx, array):
    buffer = ctx.alloc(array.nbytes)
    ctx.upload(buffer, array)
    return buffer


def down(ctx, buffer, dtype=np.float32):
    return ctx.download(buffer, np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype))


def scale(ctx, source, target, count, a, **overrides):
    ctx.launch(ctx.pipeline("scale", **overrides), (source, target), struct.pack("<If", count, a), -(-count // 64))
