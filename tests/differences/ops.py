"""Every op of op_db that Volta has, in all forms and with all variants of its samples."""
from __future__ import annotations

import argparse
import itertools
import operator
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

from tests.differences import accepted, apart, forms, names, outcome, variants
from tests.differences.carry import Laid, NotCarried, Ours, Theirs, change, describe, dtype_name, each_laid

MOST = (torch.float32, torch.int64)             # of which most variants are made
LARGE = 60_000          # elements of a sample that is left out
KINDS = ("plain", "method", "inplace", "operator", "alias", "grad", "out", "layouts", "planted", "integers", "empty", "mixed", "numbers",
         "spelled", "errors", "dtypes")


class Run:
    """One entry's comparisons, in the forms of `kinds`."""

    def __init__(self, name: str, info: object, op: object, options: object) -> None:
        self.name, self.info, self.options = name, info, options
        self.function = {"torch": getattr(info, "op", None), "volta": op}
        self.device = "gpu" if options.gpu else "cpu"
        self.theirs, self.ours = Theirs(), Ours(self.device)
        self.loose = 10.0 if options.gpu else 1.0
        self.skip = accepted.skipped(name.partition("/")[0])
        self.found: list[tuple[str, str]] = []
        self.done = 0
        self.rng = np.random.default_rng(options.seed)

    # what is run

    def samples(self, dtype: torch.dtype, wants: bool) -> list[tuple[object, object, object]]:
        """(descriptions, process, the sample itself): PyTorch's first, then of its reference inputs, from another place for each seed."""
        torch.manual_seed(self.options.seed)
        got = []
        for source in (self.info.sample_inputs_func, self.info.reference_inputs_func or (lambda *_: [])):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    most = 300 if self.options.seed else self.options.cap
                    every = list(itertools.islice(source(self.info, "cpu", dtype, wants), most))
            except Exception:           # samples of some dtypes cannot be made
                continue
            if self.options.seed and len(every) > self.options.cap:
                every = [every[i] for i in sorted(self.rng.choice(len(every), self.options.cap, replace=False))]
            for sample in every:
                if len(got) >= self.options.cap:
                    return got
                try:
                    args = describe(((sample.input, *sample.args), sample.kwargs))
                except NotCarried:
                    continue
                if sum(laid.base.size for laid in each_laid(args)) <= LARGE and not self.beyond(args):
                    got.append((args, sample.output_process_fn_grad, sample))
        return got

    def beyond(self, args: object) -> bool:
        """Whether a device has no such dtype, or no such integers."""
        return self.device == "gpu" and (any(word in repr(args) for word in ("float64", "bfloat16")) or any(
            laid.dtype is torch.int64 and laid.base.size and (laid.base != laid.base.astype(np.int32)).any() for laid in each_laid(args)))

    def run(self) -> None:
        for dtype_word in self.options.dtypes:
            dtype = getattr(torch, dtype_word)
            if self.device == "gpu" and dtype in (torch.float64, torch.bfloat16):
                continue
            if dtype not in self.info.dtypes:
                self.refused(dtype)
                continue
            for i, (args, process, _) in enumerate(self.samples(dtype, False)):
                self.where = f"{dtype_word} sample {i}"
                self.one(args, process, dtype, i)
            wants = dtype in (torch.float64, torch.float32) or self.options.cap > 20 and dtype in variants.FLOATS
            if "grad" in self.options.kinds and dtype in self.info.supported_backward_dtypes("cpu") and wants:
                for i, (args, process, _) in enumerate(self.samples(dtype, True)):
                    self.where = f"{dtype_word} sample {i}"
                    self.differentiated(args, process)
        if "errors" in self.options.kinds:
            self.errors()

    def one(self, args: object, process: object, dtype: torch.dtype, i: int) -> None:
        kinds = self.options.kinds
        few = i < (self.options.few if dtype in MOST else 1)
        here = forms.plain(self.function)
        base = self.check("plain", here, args) if "plain" in kinds else outcome.call(self.theirs, here, args)
        for kind in ("method", "inplace", "operator", "inplace_operator"):
            if kind.removeprefix("inplace_") in kinds:
                self.variant(kind, args)
        if "alias" in kinds and i < 2:
            self.aliases(args)
        if "out" in kinds and self.info.supports_out and not isinstance(base.value, outcome.Raised):
            self.outs(args, base, few)
        if "layouts" in kinds and few:
            for word, other in variants.layouts(args, self.rng):
                self.check(word, here, other)
        if "planted" in kinds and few:
            for word, other in variants.planted(args, self.rng):
                self.check(word, here, other)
        if "integers" in kinds and few and self.info.name not in accepted.FATAL:
            for word, other in variants.extremes(args, self.rng, self.device == "gpu"):
                self.check(word, here, other)
        if "empty" in kinds and few:
            for word, other in variants.empty(args):
                self.check(word, here, other)
        if "mixed" in kinds and few:
            for word, other in variants.mixed(args, [getattr(torch, word) for word in self.options.dtypes]):
                self.check(word, here, other)
                if self.info.inplace_variant is not None:
                    self.variant("inplace", other, f" {word}")
        if "numbers" in kinds and few and dtype in MOST and not self.name.startswith("__"):
            for word, other in variants.numbers(args):
                self.check(word, here, other)
        if "spelled" in kinds and i < 2 and dtype in MOST and not self.name.startswith("__"):
            for word, other in variants.spelled(args):
                self.check(word, here, other)

    def variant(self, kind: str, args: object, more: str = "") -> None:
        theirs, ours = names.form(self.info, kind)
        if theirs is None:
            return
        if ours is names.ABSENT:
            self.note(kind, f"absent: {kind} form")
            return
        if kind.endswith("operator") and (args[1] or len(args[0]) > 2):
            return
        self.check(kind + more, forms.plain({"torch": theirs, "volta": ours}), args)

    def aliases(self, args: object) -> None:
        for alias in self.info.aliases:
            ours = names.find(alias.name)
            if ours is names.ABSENT:
                self.note("alias", f"absent: {alias.name}")
                continue
            self.check(f"alias {alias.name}", forms.plain({"torch": alias.op, "volta": ours}), args)

    def outs(self, args: object, base: outcome.Outcome, few: bool) -> None:
        several = isinstance(base.value, (tuple, list))
        if not forms._facts(base.value) or self.info.name in accepted.WRITES_BEYOND:
            return

        def widened() -> object:
            wide = outcome.call(self.theirs, forms.plain(self.function), variants.all_of(args, torch.float64), self.options.seed).value
            return [[], forms._facts(wide)]

        for word, make in forms.outs(base.value, self.device):
            if few or word in ("out", "out of nothing", "out permuted"):
                self.check(word, forms.into_out(self.function, make, several), args, widened)
        if not several and isinstance(self.info, (UnaryUfuncInfo, BinaryUfuncInfo)):     # others read what they have written
            for i, _ in enumerate(each_laid(args)[:3]):
                self.check(f"out is input {i}", forms.into_input(self.function, i), args)
            if isinstance(args[0][0], Laid) and args[0][0].values().size:
                self.check("out overlaps", forms.into_shifted_input(self.function), args)

    def differentiated(self, args: object, process: object) -> None:
        if not any(laid.wants for laid in each_laid(args)):
            return
        both = {"torch": process, "volta": names.ours(process)}
        self.check("plain recorded", forms.plain(self.function), args)
        self.check("grad", forms.gradients(self.function, both, 1), args)
        if self.info.supports_gradgrad:
            self.check("grad grad", forms.gradients(self.function, both, 2), args)
        theirs, ours = names.form(self.info, "inplace")
        if theirs is not None and ours is not names.ABSENT and isinstance(args[0][0], Laid):
            self.check("grad inplace", forms.in_place_recorded({"torch": theirs, "volta": ours}), args)
            self.check("inplace of a leaf", forms.plain({"torch": theirs, "volta": ours}), args)
        if "planted" in self.options.kinds:
            for word, other in variants.planted(args, self.rng):
                self.check(f"grad {word}", forms.gradients(self.function, both, 1), other)
        if "layouts" in self.options.kinds:
            for word, other in variants.layouts(args, self.rng):
                self.check(f"grad {word}", forms.gradients(self.function, both, 1), other)

    def refused(self, dtype: torch.dtype) -> None:
        """A dtype that PyTorch's op does not take on the CPU, in the place of float32."""
        if "dtypes" not in self.options.kinds:
            return
        for i, (args, _, _) in enumerate(self.samples(torch.float32, False)[:2]):
            self.where = f"{dtype_name(dtype)} sample {i}"
            other = change(args, lambda laid: variants.cast(laid, dtype) if laid.dtype is torch.float32 else laid)
            self.check("refused dtype", forms.plain(self.function), other)

    def errors(self) -> None:
        if self.info.error_inputs_func is None or self.name.startswith("__"):         # a method of a number
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                every = list(self.info.error_inputs("cpu"))
        except Exception:           # as above
            return
        for i, error in enumerate(every):
            sample = error.sample_input
            try:
                args = describe(((sample.input, *sample.args), sample.kwargs))
            except NotCarried:
                continue
            self.where = f"error {i}"
            if not self.beyond(args):
                self.check("error", forms.plain(self.function), args)
                if "out" not in args[1]:
                    self.variant("inplace", args, " error")

    # what is compared

    def check(self, form: str, function: object, args: object, widened: object = None) -> outcome.Outcome:
        theirs = outcome.call(self.theirs, function, args, self.options.seed)
        if self.beyond(args) or self.device == "gpu" and any(word in repr(theirs.value) for word in ("float64", "bfloat16", "complex")):
            return theirs
        ours = outcome.call(self.ours, function, args, self.options.seed)
        self.done += 1
        made: list = []

        def exact() -> object:
            if not made:
                wide = variants.all_of(args, torch.float64)
                got = outcome.call(self.theirs, function, wide, self.options.seed)
                made.append(outcome.Outcome(widened(), got.inputs) if widened else got)
            return None if isinstance(made[0].value, outcome.Raised) else made[0].value

        def exact_input(k: int) -> object:
            return exact() and made[0].inputs[k]

        skip = self.skip | {"strides"} if "grad" in form else self.skip          # a gradient lies as its formula gave it
        if self.device == "gpu" and beyond_words(theirs):
            skip |= {"values"}
        loose = self.loose * (2e5 if form == "out of float64" else 1)         # which was computed in float32
        for text in outcome.compare(theirs.value, ours.value, exact, loose, skip):
            self.note(form, text, theirs, ours, args)
        for text in outcome.warned(theirs, ours):
            self.note(form, text, theirs, ours, args)
        skip = self.skip - {"values"} if isinstance(ours.value, outcome.Raised) else self.skip
        if isinstance(ours.value, outcome.Raised):
            before = [outcome.fact(self.ours, x, []) for x in outcome.tensors(self.ours, self.ours.make(args))]
            same = all(a.shape == b.shape and np.array_equal(a.values, b.values, equal_nan=a.values.dtype.kind == "f")
                       for a, b in zip(before, ours.inputs))
            if not same and not isinstance(theirs.value, outcome.Raised) or not same and accepted.unchanged(theirs, before):
                self.note(form, "changed an input and raised", theirs, ours, args)
        elif not isinstance(theirs.value, outcome.Raised):
            for k, (a, b) in enumerate(zip(theirs.inputs, ours.inputs)):
                for text in outcome.compare(a, b, lambda k=k: exact_input(k), loose, (skip & {"values"}) | {"same", "shares", "leaf"}):
                    self.note(form, f"input {k} afterwards: {text}", theirs, ours, args)
        return theirs

    def note(self, form: str, text: str, theirs: object = None, ours: object = None, args: object = None) -> None:
        where = getattr(self, "where", "")
        cause = accepted.cause(self.name, f"{form} | {where}", text, args, self.device == "gpu")
        if self.options.log:
            with open(self.options.log, "a") as log:
                log.write("\t".join((self.name, where, form, cause or "-", text, show(args)[:400])).replace("\n", " ") + "\n")
        if cause is None:
            self.found.append((f"{where} {form}", text))
            if self.options.verbose:
                print(f"  {self.name} | {where} {form} | {text}\n      {show(args)}", flush=True)
        else:
            accepted.count(cause)


def beyond_words(found: outcome.Outcome) -> bool:
    """Whether there are integers of more than 32 bits in what a call gave."""
    facts = [*forms._facts(found.value), *found.inputs]
    return any(each.dtype == "int64" and (each.values != each.values.astype(np.int32)).any() for each in facts)


def show(args: object) -> str:
    """The arguments in short."""
    if isinstance(args, Laid):
        values = f"={args.values().tolist()}" if args.values().size < 9 else ""
        return f"{dtype_name(args.dtype)}{list(args.shape)}s{list(args.strides)}{values}"
    if isinstance(args, (tuple, list)):
        return "(" + ", ".join(map(show, args)) + ")"
    if isinstance(args, dict):
        return "{" + ", ".join(f"{k}={show(v)}" for k, v in args.items()) + "}"
    return repr(args)


def runs(options: object) -> Iterator[Run]:
    """Each name's comparisons."""
    found = sorted(names.entries(options.names), key=operator.itemgetter(0))
    yield from finished([Run(name, info, op, options) for i, (name, info, op) in enumerate(found)
                         if i % options.jobs == options.job and name > options.after], options)


def finished(runs: list[Run], options: object) -> Iterator[Run]:
    """Each of `runs` after its comparisons, in a process of its own: PyTorch ends it at some integers, and memory is bounded. On a GPU all
    are made in one, which keeps what was compiled, as long as it lives."""
    ask = apart.Process(lambda i, kinds: _ran(runs[i], kinds))
    for i, run in enumerate(runs):
        got = ask(i, options.kinds)
        for faulty in ((), ("planted", "integers"), ("planted", "integers", "layouts", "numbers", "empty", "out")):
            if isinstance(got, str) and "status" in got:        # PyTorch's kernels have faults, in this one or the one before
                accepted.count("processes that PyTorch ended")
                got = ask(i, [kind for kind in options.kinds if kind not in faulty])
        if isinstance(got, str):
            run.found = [("this program", f"broke off: {got}")]
        else:
            run.found, run.done, counts = got
            accepted.COUNTS.update(counts)
        if not options.gpu:
            ask.end()
        yield run
    ask.end()


def _ran(run: Run, kinds: list[str]) -> tuple:
    accepted.COUNTS.clear()
    run.options = argparse.Namespace(**{**vars(run.options), "kinds": kinds})
    run.found, run.done = [], 0
    run.run()
    return run.found, run.done, dict(accepted.COUNTS)
