"""A function's results from processes of their own, which may die or want too much memory. Knows nothing of tensors."""
from __future__ import annotations

import os
import pickle
import resource
import sys
import traceback

ROOM = 8 << 30          # bytes of memory that nobody shares: what a GPU's driver maps does not count


class Process:
    """One that answers questions by `function`, one after another, and keeps what it has made; where it dies, the next question goes to
    another."""

    def __init__(self, function: object) -> None:
        self.function = function
        self.child = 0

    def __call__(self, *question: object) -> object:
        """What `function` gives, or a text that says why it gave nothing."""
        if not self.child:
            self._start()
        try:
            pickle.dump(question, self.asked)
            self.asked.flush()
            return pickle.load(self.answered)
        except (OSError, EOFError, pickle.UnpicklingError):
            return f"the process ended with status {self.end()}"

    def end(self) -> int:
        """Let it end, where there is one; its status."""
        if not self.child:
            return 0
        child, self.child = self.child, 0
        for stream in self.asked, self.answered:
            try:
                stream.close()
            except OSError:         # a question that nobody read
                pass
        return os.waitpid(child, 0)[1]

    def _start(self) -> None:
        sys.stdout.flush()
        (asked, asks), (answers, answered) = os.pipe(), os.pipe()
        self.child = os.fork()
        mine, others = ((asks, answers), (asked, answered)) if self.child else ((asked, answered), (asks, answers))
        for end in others:
            os.close(end)
        if not self.child:
            self._answer(*mine)
        self.asked, self.answered = os.fdopen(mine[0], "wb"), os.fdopen(mine[1], "rb")

    def _answer(self, asked: int, answered: int) -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (ROOM, ROOM))
        with os.fdopen(asked, "rb") as questions, os.fdopen(answered, "wb") as answers:
            while True:
                try:
                    question = pickle.load(questions)
                except EOFError:
                    break
                try:
                    got = self.function(*question)
                except BaseException:           # its text is the answer
                    got = traceback.format_exc()[-800:]
                pickle.dump(got, answers)
                answers.flush()
                sys.stdout.flush()
        os._exit(0)
