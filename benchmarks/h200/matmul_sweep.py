"""Times the matmul shaders on one GPU next to PyTorch, through plain wgpu: no other part of Volta is needed.

    python benchmarks/h200/matmul_sweep.py              the plan's choice for every shape, against PyTorch
    python benchmarks/h200/matmul_sweep.py --sweep plan every tile that plans use, with every split, best first
    python benchmarks/h200/matmul_sweep.py --sweep all  and more tiles

Every product is checked against float64 on fresh random operands with a poisoned output. Times are GPU timestamps over
repeated dispatches in one pass (PyTorch: CUDA events over a captured graph, and eager in brackets). Full numbers go to --out.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import wgpu
from wgpu.backends.wgpu_native import _api
from wgpu.backends.wgpu_native._ffi import ffi, lib

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("gpu_matmul", ROOT / "volta/devices/gpu/matmul.py")
plans = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = plans
_spec.loader.exec_module(plans)

try:
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    HAVE_TORCH = torch.cuda.is_available()
except ImportError:
    HAVE_TORCH = False

INDEX = ("struct Grid { @builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32> }\n"
         "fn group_of(g: Grid) -> u32 { return g.group.x + g.group.y * g.groups.x; }\n")
LAYOUTS = [(0, 0), (0, 1), (1, 0), (1, 1)]          # (A transposed, B transposed)
BIG = [(n, n, n, *t) for n in (4096, 2048, 1024) for t in LAYOUTS]
STEP = [(256, 512, 784, 0, 1), (256, 512, 512, 0, 1), (256, 10, 512, 0, 1), (256, 512, 512, 0, 0), (256, 512, 10, 0, 0),
        (512, 784, 256, 1, 0), (512, 512, 256, 1, 0), (10, 512, 256, 1, 0)]
OTHER = [(512, 512, 512, 0, 0), (4095, 4095, 4095, 0, 0), (2047, 2049, 2045, 0, 1), (1, 4096, 4096, 0, 0), (1, 4096, 4096, 0, 1),
         (4096, 1, 4096, 0, 0), (64, 64, 65536, 1, 0), (64, 1152, 100352, 0, 1), (8192, 64, 576, 0, 1), (2048, 768, 768, 0, 1),
         (2048, 3072, 768, 0, 1), (16, 4096, 4096, 0, 1), (128, 128, 128, 0, 1), (64, 10, 128, 0, 1), (768, 768, 2048, 1, 0)]
T = plans.Tile
OTHER_TILES = [
    T(64, 128, 8, 2, 2), T(128, 64, 8, 2, 2), T(64, 64, 8, 2, 2), T(64, 64, 16, 2, 2), T(64, 64, 16, 1, 1), T(32, 32, 64, 1, 1, 8),
    T(32, 32, 64, 1, 1, 4), T(32, 32, 128, 1, 1, 8), T(32, 32, 16, 1, 1, 2), T(16, 16, 64, 1, 1, 16, 4), T(16, 32, 64, 1, 1, 8),
    T(16, 32, 128, 1, 1, 16)]


class GPU:
    """A wgpu device with trusted modules, cached pipelines and timestamps."""

    def __init__(self):
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
        self.name = f"{adapter.info.get('device')} {adapter.info.get('description')}"
        self.device = adapter.request_device_sync(required_features=["immediates", "timestamp-query"])
        self.queue = self.device.queue
        self.shared = self.device.limits["max-compute-workgroup-storage-size"]
        self.period = lib.wgpuQueueGetTimestampPeriod(self.queue._internal)
        self.queries = self.device.create_query_set(type="timestamp", count=2)
        self.resolved = self.buffer(16, wgpu.BufferUsage.QUERY_RESOLVE)
        self.layouts, self.pipelines, self.text = {}, {}, {}

    def buffer(self, size, usage=wgpu.BufferUsage.STORAGE):
        usage |= wgpu.BufferUsage.COPY_SRC | (wgpu.BufferUsage.COPY_DST if usage == wgpu.BufferUsage.STORAGE else 0)
        return self.device.create_buffer(size=max(16, -(-size // 16) * 16), usage=usage)

    def layout(self, buffers, nbytes):
        if (buffers, nbytes) not in self.layouts:
            kinds = ["read-only-storage"] * (buffers - 1) + ["storage"]
            groups = self.device.create_bind_group_layout(entries=[
                {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}} for i, kind in enumerate(kinds)])
            layout = self.device.create_pipeline_layout(bind_group_layouts=[groups], immediate_size=nbytes)
            self.layouts[buffers, nbytes] = groups, layout
        return self.layouts[buffers, nbytes]

    def pipeline(self, step):
        key = step.file, *sorted(step.overrides.items())
        if key not in self.pipelines:
            text = self.text.setdefault(step.file, (ROOT / f"shaders/{step.file}.wgsl").read_text())
            for name, value in step.overrides.items():
                text = re.sub(rf"(?m)^const {name}: u32 = \d+u;.*$", f"const {name}: u32 = {value}u;", text)
            code = (INDEX + text).encode()
            held = ffi.new("char[]", code)
            source = ffi.new("WGPUShaderSourceWGSL *")
            source.chain.sType, source.code.data, source.code.length = lib.WGPUSType_ShaderSourceWGSL, held, len(code)
            about = ffi.new("WGPUShaderModuleDescriptor *")
            about.nextInChain = ffi.cast("WGPUChainedStruct *", source)
            module = _api.GPUShaderModule("", lib.wgpuDeviceCreateShaderModuleTrusted(self.device._internal, about, 0), self.device)
            self.pipelines[key] = self.device.create_compute_pipeline(
                layout=self.layout(len(step.buffers), len(step.params))[1], compute={"module": module, "entry_point": "main"})
        return self.pipelines[key]

    def bind(self, plan, buffers):
        """[(pipeline, bind group, params, x, y)] of a plan."""
        out = []
        for step in plan.steps:
            layout = self.layout(len(step.buffers), len(step.params))[0]
            group = self.device.create_bind_group(layout=layout, entries=[
                {"binding": i, "resource": {"buffer": buffers[b]}} for i, b in enumerate(step.buffers)])
            y = -(-step.groups // 65535)
            out.append((self.pipeline(step), group, step.params, -(-step.groups // y), y))
        return out

    def run(self, launches, repeats):
        """Seconds per repeat."""
        encoder = self.device.create_command_encoder()
        compute = encoder.begin_compute_pass(timestamp_writes={
            "query_set": self.queries, "beginning_of_pass_write_index": 0, "end_of_pass_write_index": 1})
        for _ in range(repeats):
            for pipeline, group, params, x, y in launches:
                compute.set_pipeline(pipeline)
                compute.set_bind_group(0, group)
                compute.set_immediates(0, params, 0, len(params))
                compute.dispatch_workgroups(x, y)
        compute.end()
        encoder.resolve_query_set(self.queries, 0, 2, self.resolved, 0)
        self.queue.submit([encoder.finish()])
        begin, end = np.frombuffer(self.queue.read_buffer(self.resolved, 0, 16), np.uint64)
        return float(end - begin) * self.period * 1e-9 / repeats


class Bench:
    """Operands, reference and times of one shape at a time."""

    def __init__(self, gpu, out):
        self.gpu, self.out, self.rows = gpu, out, []
        self.random = np.random.default_rng()

    def load(self, m, n, k, ta, tb):
        gpu = self.gpu
        self.shape = m, n, k, ta, tb
        self.repeats = max(2, min(50, int(1.5e11 / (m * n * k))))
        a = self.random.standard_normal((k, m) if ta else (m, k), dtype=np.float32)
        b = self.random.standard_normal((n, k) if tb else (k, n), dtype=np.float32)
        self.buffers = [gpu.buffer(a.nbytes), gpu.buffer(b.nbytes), gpu.buffer(16), gpu.buffer(m * n * 4), gpu.buffer(16)]
        gpu.queue.write_buffer(self.buffers[0], 0, a)
        gpu.queue.write_buffer(self.buffers[1], 0, b)
        self.poison = gpu.buffer(m * n * 4)
        gpu.queue.write_buffer(self.poison, 0, np.full(m * n, np.nan, np.float32))
        x, y = a.T if ta else a, b.T if tb else b
        self.graph = self.eager = None
        if HAVE_TORCH:
            x, y = (torch.from_numpy(t).cuda() for t in (a, b))
            x, y = x.T if ta else x, y.T if tb else y
            self.graph, self.eager = torch_times(x, y, self.repeats)
            self.head = (x[:64].double() @ y.double()).cpu().numpy(), (x[-64:].double() @ y.double()).cpu().numpy()
        else:
            self.head = x[:64].astype(float) @ y.astype(float), x[-64:].astype(float) @ y.astype(float)

    def measure(self, tile=None, splits=None):
        m, n, k, ta, tb = self.shape
        a = plans.Operand(not ta, m if ta else k)
        b = plans.Operand(bool(tb), k if tb else n)
        plan = plans.plan(m, n, k, 1, a, b, tile=tile, splits=splits)
        gpu = self.gpu
        if plan.scratch > self.buffers[plans.SCRATCH].size:
            self.buffers[plans.SCRATCH] = gpu.buffer(plan.scratch)
        launches = gpu.bind(plan, self.buffers)
        encoder = gpu.device.create_command_encoder()
        encoder.copy_buffer_to_buffer(self.poison, 0, self.buffers[plans.OUT], 0, m * n * 4)
        gpu.queue.submit([encoder.finish()])
        gpu.run(launches, 1)
        error = 0.0
        for reference, first in zip(self.head, (0, max(0, m - 64))):
            got = np.frombuffer(gpu.queue.read_buffer(self.buffers[plans.OUT], first * n * 4, reference.size * 4), np.float32)
            error = max(error, float(np.linalg.norm(got.reshape(reference.shape) - reference) / np.linalg.norm(reference)))
        gpu.run(launches, self.repeats)
        seconds = min(gpu.run(launches, self.repeats) for _ in range(3))
        step = plan.steps[0]
        o = step.overrides
        what = step.file
        if what == "matmul":
            what = f"{o['TILE_M']}x{o['TILE_N']}x{o['TILE_K']}/{o['ROWS']}{o['COLS']}/{o['SLICES']}"
        row = {"shape": self.shape, "kernel": what, "tile": list(tile) if tile else None, "splits": splits,
               "launches": len(plan.steps), "groups": step.groups, "us": seconds * 1e6, "tflops": 2e-12 * m * n * k / seconds,
               "error": error, "graph": self.graph, "eager": self.eager}
        self.rows.append(row)
        return row

    def line(self, row):
        m, n, k, ta, tb = row["shape"]
        size = f"{m}x{n}x{k}"
        text = (f"{size:18s}{'NT'[ta]}{'NT'[tb]} {row['kernel']:16s} split {row['splits'] or '-'} {row['groups']:6d} groups "
                f"{row['us']:9.1f} us {row['tflops']:6.2f} TFLOPS")
        if row["graph"]:
            graph, eager = row["graph"] * 1e6, row["eager"] * 1e6
            text += f"  torch {graph:8.1f} ({eager:.1f}) us  {graph / row['us']:.2f} ({eager / row['us']:.2f}) of its speed"
        return text if row["error"] < max(2e-6, 2e-8 * k ** 0.5) else f"{text}  WRONG {row['error']:.1e}"


def torch_times(x, y, repeats):
    """Seconds of one product: (in a captured graph, eager)."""
    def timed(call, count):
        best = 1e9
        for _ in range(3):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            end.synchronize()
            best = min(best, begin.elapsed_time(end) * 1e-3 / count)
        return best

    def many():
        for _ in range(repeats):
            torch.matmul(x, y)

    many()
    eager = timed(many, repeats)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        many()
    graph.replay()
    return timed(graph.replay, repeats), eager


def shared_bytes(tile, ta, tb):
    """Workgroup memory of a tile, as matmul.wgsl lays it out."""
    def blocks(width):
        return (width * tile.k // 4 // tile.threads) % 4 == 0
    a, b = (width // 4 + int(along and not blocks(width)) for width, along in ((tile.m, not ta), (tile.n, tb)))
    tiles = tile.buffers * tile.k * (a + b)
    return 16 * (max(tiles, 4 * tile.threads) if tile.slices > 1 else tiles)


def sweep(bench, shape, tiles, deadline):
    m, n, k, ta, tb = shape
    rows = []
    for tile in tiles:
        if shared_bytes(tile, ta, tb) > bench.gpu.shared or m * n * k > 1e10 and tile.m * tile.n < 4096:
            continue
        count = -(-m // tile.m) * -(-n // tile.n)
        for splits in plans.SPLITS:
            if splits > 1 and (count * splits > 1100 or k < splits * tile.k * 4):
                break
            if count * splits < 8 and k > 4096 or time.time() > deadline:
                continue
            rows.append(bench.measure(tile, splits))
    return sorted(rows, key=lambda row: row["us"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sweep", choices=("plan", "all"))
    parser.add_argument("--shapes", default="big,step,other", help="of big, step, other; or MxNxK-NT,...")
    parser.add_argument("--seconds", type=float, default=240, help="stop sweeping after this long")
    parser.add_argument("--out", type=Path, default=Path("."))
    args = parser.parse_args()
    shapes = []
    for name in args.shapes.split(","):
        named = {"big": BIG, "step": STEP, "other": OTHER}.get(name)
        size, _, letters = name.partition("-")
        shapes += named or [(*map(int, size.split("x")), letters[0] == "T", letters[1] == "T")]
    gpu = GPU()
    bench = Bench(gpu, args.out)
    print(gpu.name, "workgroup memory", gpu.shared)
    deadline = time.time() + args.seconds
    tiles = [*(plans.COSTS if args.sweep else ()), *(OTHER_TILES if args.sweep == "all" else ())]
    for shape in shapes:
        bench.load(*map(int, shape))
        for row in sweep(bench, bench.shape, tiles, deadline)[:5]:
            print("  ", bench.line(row), flush=True)
        print(bench.line(bench.measure()), flush=True)
    (args.out / "matmul_sweep.json").write_text(json.dumps(bench.rows))


if __name__ == "__main__":
    main()
