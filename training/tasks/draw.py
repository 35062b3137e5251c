"""Draws one task from a template: names, words, numbers, a language, a wording, typing errors.

The two halves, `train` and `test`, share no template, no wording and no name of a file. A template belongs to one half
by the hash of its name, and names are drawn from the half of each pool.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from training.tasks import pools
from training.tasks.task import Check, Step, Task

TEST_SHARE: Final = 0.1
"""Of the templates."""
TYPING_ERRORS: Final = 0.12
"""Share of the prompts that have some."""
Template = Callable[["Draw"], Task]
TEMPLATES: dict[str, Template] = {}


def template(make: Template) -> Template:
    """Register a template under the name of its function."""
    if TEMPLATES.setdefault(make.__name__, make) is not make:
        raise ValueError(f"There are two templates {make.__name__}")
    return make


def half_of(name: str) -> str:
    """Return the half that a template, or a word of a pool, belongs to."""
    return "test" if hashlib.sha256(name.encode()).digest()[0] < 256 * TEST_SHARE else "train"


class Draw(random.Random):
    """What a template draws from; the same seed gives the same task."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(f"{name} {seed}")
        self.name = name
        self.half = half_of(name)
        self._used: set[str] = set()

    def word(self, pool: Sequence[str] = pools.NOUNS) -> str:
        """Return a word that was not drawn before, of this half."""
        free = [each for each in pool if half_of(each) == self.half and each not in self._used]
        drawn = self.choice(free or [each for each in pool if each not in self._used])
        self._used.add(drawn)
        return drawn

    def stem(self) -> str:
        """Return the beginning of a file's name; where all of this half are used, one of them with a number."""
        own = [each for each in pools.STEMS if half_of(each) == self.half]
        free = [each for each in own if each not in self._used]
        drawn = self.choice(free) if free else f"{self.choice(own)}{100 + len(self._used)}"
        self._used.add(drawn)
        return drawn

    def words(self, count: int, pool: Sequence[str] = pools.NOUNS) -> list[str]:
        """Return different words."""
        return [self.word(pool) for _ in range(count)]

    def file(self, ending: str = "txt") -> str:
        """Return a name for a file, such as `tulip-list.txt`."""
        stem = self.stem()
        form = self.random()
        if form < 0.2:
            stem = f"{stem}_{self.word(pools.QUALIFIERS)}"
        elif form < 0.3:
            stem = f"{stem}-{self.word(pools.QUALIFIERS)}"
        elif form < 0.36:
            stem = f"{stem}{self.randint(2, 99)}"
        elif form < 0.4:
            stem = stem.capitalize()
        return f"{stem}.{ending}" if ending else stem

    def folder(self) -> str:
        """Return a name for a folder."""
        return self.word(pools.FOLDERS)

    def amount(self, low: int = 2, high: int = 99) -> int:
        """Return a number."""
        return self.randint(low, high)

    def others(self, count: int | None = None) -> dict[str, str]:
        """Return files that have nothing to do with the task, with their texts."""
        count = self.choice([0, 0, 1, 1, 2, 3]) if count is None else count
        return {self.file(self.choice(["txt", "md", "log"])): f"{self.sentence()}\n" for _ in range(count)}

    def sentence(self) -> str:
        """Return a sentence, in which nothing is asked for."""
        return self.choice(pools.SENTENCES).format(self.word(), self.word(), self.amount())

    def task(
        self,
        wordings: Mapping[str, Sequence[str]],
        *,
        files: Mapping[str, str],
        steps: Sequence[Step],
        check: Check,
        folders: Sequence[str] = (),
        others: int | None = None,
        **values: object,
    ) -> Task:
        """Choose a language and a wording, fill it in, and return the task.

        `wordings` has the languages `en`, and any of `de`, `fr`, `es`, `pt`; `{names}` stand for `values`. Files that
        have nothing to do with it are laid beside unless `others` is 0.
        """
        languages = list(wordings)
        language = "en" if len(languages) == 1 or self.random() < 0.7 else self.choice(languages[1:])
        prompt = self.choice(wordings[language]).format(**values)
        if self.random() < TYPING_ERRORS:
            prompt = self._mistyped(prompt, keep=[str(each) for each in values.values()])
        beside = {name: text for name, text in self.others(others).items() if name not in files}
        return Task(
            template=self.name,
            half=self.half,
            language=language,
            prompt=prompt,
            files={**files, **beside},
            folders=folders,
            steps=steps,
            check=check,
        )

    def _mistyped(self, prompt: str, keep: Sequence[str]) -> str:
        """Make one or two typing errors, in no name and no number."""
        words = prompt.split(" ")
        plain = [at for at, each in enumerate(words) if each.isalpha() and len(each) > 3 and each not in keep]
        for at in self.sample(plain, min(len(plain), self.randint(1, 2))):
            word, where = words[at], self.randrange(1, len(words[at]) - 1)
            words[at] = self.choice(
                [
                    word[:where] + word[where + 1 :],
                    word[:where] + word[where + 1] + word[where] + word[where + 2 :],
                    word[:where] + word[where] + word[where:],
                ]
            )
        if self.random() < 0.3:
            words[0] = words[0].lower()
        return " ".join(words)
