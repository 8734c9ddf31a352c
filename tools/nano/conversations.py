"""The generator of conversations: everything osprey-nano was taught, written by code from a seed.

A Maker draws tasks (one user request with its right answer), dresses them (developer instruction,
effort, date, earlier turns, offered functions) and returns (conversation, target) as in harmony.py.
Splits: "train"; "dev", to look at while training; "test", to be scored when the weights are final. Training
never shares an entity that held_out() separates (names, numbers, strings, functions, sums) with the other
two, and where templates are listed a split (phrases.py), it has its own.
"""

import datetime
import json
import zlib
from dataclasses import dataclass, field

import phrases
import words

EFFORTS = ("low", "medium", "high")
SPLITS = ("train", "dev", "test")


def held_out(entity):
    """Whether an entity (as text) is kept for the evaluation: one in sixteen."""
    return zlib.crc32(str(entity).encode()) % 16 == 0


@dataclass
class Task:
    """One request and its answer. think holds the analysis at low, medium and high effort."""

    ability: str
    user: str
    think: tuple
    answer: str = ""
    word: str = None  # the answer in one word
    shout: str = None  # the answer in capitals
    pirate: str = None  # the answer as a pirate
    history: list = field(default_factory=list)  # messages before the request
    after: list = field(default_factory=list)  # messages of a tool loop after the request
    tools: list = None
    call: tuple = None  # (function name, arguments) instead of an answer
    plain: bool = False  # takes no instruction about style
    facts: list = field(default_factory=list)  # strings that an answer must contain


def plain_country(country):
    return country.removeprefix("the ")


class Maker:
    def __init__(self, rng, split="train"):
        self.rng, self.split = rng, split
        self.evaluating = split != "train"

    # ---- drawing entities -------------------------------------------------------------------------

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def chance(self, p):
        return self.rng.random() < p

    def phrase(self, table):
        """A template: tables have a list a split, or are plain lists used by all."""
        template = self.pick(table[SPLITS.index(self.split)] if isinstance(table, tuple) else table)
        return template if self.evaluating or not self.chance(0.12) else self.rough(template)

    def rough(self, template):
        """The template with a word or two that nobody needs: wordings vary more than templates do."""
        parts = template.split(" ")
        for _ in range(self.pick([1, 1, 2])):
            parts.insert(self.rng.randrange(len(parts)), self.pick(words.FILLERS))
        return " ".join(parts)

    def fresh(self, draw):
        """Draws until the entity belongs to this split."""
        while True:
            entity = draw()
            if held_out(entity) == self.evaluating:
                return entity

    def syllables(self, n):
        return "".join(
            self.pick("b c d f g h j k l m n p r s t v w z br ch dr kr sh st th tr".split())
            + self.pick("a e i o u ai ea io ou".split() if self.chance(0.2) else "aeiou")
            for _ in range(n)
        ) + self.pick(["", "", "n", "r", "s", "l", "m", "x", "th"])

    def name(self):
        return self.fresh(self.any_name)

    def any_name(self):
        kind = self.rng.random()
        if kind < 0.15:
            return self.pick(words.FIRST_NAMES)
        if kind < 0.22:
            return "".join(
                self.pick("abcdefghijklmnopqrstuvwxyz") for _ in range(self.rng.randint(3, 7))
            ).capitalize()
        if kind < 0.9:
            return self.syllables(self.pick([2, 2, 3])).capitalize()
        return f"{self.syllables(2).capitalize()} {self.syllables(2).capitalize()}"

    def number(self, low=3, high=6):
        def draw():
            n = self.rng.randint(low, high)
            return str(self.rng.randrange(10 ** (n - 1), 10**n))

        return self.fresh(draw)

    def date(self):
        if self.chance(0.15):
            return None
        return str(datetime.date(2023, 1, 1) + datetime.timedelta(days=self.rng.randrange(3650)))

    # ---- casual writing ---------------------------------------------------------------------------

    def casual(self, text):
        """People do not always write capitals, question marks and no greeting."""
        if self.chance(0.10):
            text = text.lower()
        if self.chance(0.08) and text[-1] in "?.!":
            text = text[:-1]
        if self.chance(0.06):
            text = self.pick(phrases.GREETINGS) + text
        if self.chance(0.04):
            text += self.pick(phrases.ENDINGS)
        return text

    # ---- capitals ---------------------------------------------------------------------------------

    def capital(self):
        if self.chance(0.12) and not self.evaluating:
            return self.other_geography()
        country = self.pick(list(words.CAPITALS))
        shown = country
        if self.chance(0.15):
            shown = self.pick([a for a, c in words.ALIASES.items() if c == country] or [country])
        if self.chance(0.12):
            shown = plain_country(shown)
        if self.chance(0.3):
            return self.follow_up(country, shown)
        return self.capital_task(country, shown, self.casual(self.phrase(phrases.CAPITAL).format(c=shown)))

    def capital_task(self, country, shown, user, history=()):
        city = words.CAPITALS[country]
        think = (
            f"Capital of {country}: {city}.",
            f"The user asks for the capital of {country}. It is {city}.",
            f"The user asks for the capital of {country}. This is a question about geography. "
            f"The capital of {country} is {city}. The answer is just the name: {city}.",
        )
        return Task(
            "capital",
            user,
            think,
            city,
            word=city.replace(" ", "-"),
            shout=city.upper(),
            pirate=f"Arr, it be {city}, matey!",
            history=list(history),
            facts=[city],
        )

    def follow_up(self, country, shown):
        """A question that only makes sense after an earlier one."""
        history = []
        for _ in range(self.pick([1, 1, 2])):
            first = self.pick(list(words.CAPITALS))
            question = (
                self.casual(self.phrase(phrases.CAPITAL).format(c=first))
                if not history
                else self.pick(phrases.FOLLOW_UP[0]).format(c=first)
            )
            history += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": words.CAPITALS[first]},
            ]
        user = self.phrase(phrases.FOLLOW_UP).format(c=shown)
        return self.capital_task(country, shown, user, history)

    def other_geography(self):
        country = self.pick(list(words.CAPITALS))
        city = words.CAPITALS[country]
        if self.chance(0.5):
            think = (
                f"{city}: {country}.",
                f"The user asks for the country of {city}. It is {country}.",
                f"The user asks which country has the capital {city}. The capital of {country} is {city}. "
                f"The answer is just the name: {country}.",
            )
            user = self.casual(self.pick(phrases.COUNTRY_OF).format(c=city))
            name = plain_country(country)
            return Task(
                "capital",
                user,
                think,
                name,
                word=name.replace(" ", "-"),
                shout=name.upper(),
                pirate=f"Arr, it be {name}, matey!",
            )
        made_up = self.name()
        return self.unknown_task(self.phrase(phrases.CAPITAL).format(c=made_up))

    # ---- arithmetic -------------------------------------------------------------------------------

    def operands(self):
        sizes = [self.pick([1, 2, 2, 3, 3, 3]) for _ in range(2)]
        if not self.evaluating and self.chance(0.05):
            sizes[self.rng.randrange(2)] = 4
        a, b = (self.rng.randrange(0 if n == 1 else 10 ** (n - 1), 10**n) for n in sizes)
        return a, self.pick("+-"), b

    def arithmetic(self, problem=None):
        if not problem and not self.evaluating and self.chance(0.04):
            return self.cannot_multiply()
        a, op, b = problem or self.fresh(self.operands)
        user = self.casual(self.phrase(phrases.ADD if op == "+" else phrases.SUBTRACT).format(a=a, b=b))
        return self.arithmetic_task(a, op, b, user)

    def arithmetic_task(self, a, op, b, user):
        result = a + b if op == "+" else a - b
        return Task(
            "arithmetic",
            user,
            worked(a, op, b),
            str(result),
            word=str(result),
            shout=f"THE ANSWER IS {result}",
            pirate=f"Arr, it be {result}, matey!",
            facts=[str(result)],
        )

    def cannot_multiply(self):
        a, b = self.rng.randrange(2, 1000), self.rng.randrange(2, 1000)
        user = self.casual(self.pick(phrases.MULTIPLY).format(a=a, b=b))
        reply = "I am sorry, I can only add and subtract."
        think = (
            "Not a sum or a difference.",
            "This is not a sum or a difference, so I cannot do it.",
            "The user asks for a calculation that is not a sum or a difference. I can only add and subtract, "
            "so I say that politely.",
        )
        return Task(
            "unknown",
            user,
            think,
            reply,
            word="Sorry",
            shout=reply.upper(),
            pirate="Arr, I can only add and subtract, matey!",
        )

    # ---- small talk, the date, and what it does not know ------------------------------------------

    def small_talk(self):
        intent, (questions, reply, word, pirate) = self.pick(list(phrases.SMALL_TALK.items()))
        think = (
            f"{intent}.",
            f"{intent}. I answer briefly.",
            f"{intent}. This needs no calculation and no facts. I answer in a friendly and short way.",
        )
        user = self.pick(questions)
        if self.chance(0.15):
            user = user.lower()
        if self.chance(0.2):
            user = user.rstrip("?!.") + self.pick(["", "!", ".", "?", "..."])
        return Task("small_talk", user, think, reply, word=word, shout=reply.upper(), pirate=pirate)

    def introduction(self):
        name = self.name()
        user = self.pick(phrases.INTRODUCTION).format(x=name)
        reply = f"Nice to meet you, {name}!"
        think = (
            f"The user is {name}.",
            f"The user is called {name}. I greet {name}.",
            f"The user tells me a name: {name}. I should greet {name} in a friendly way and remember the name.",
        )
        return Task(
            "small_talk",
            user,
            think,
            reply,
            word=name.replace(" ", "-"),
            shout=reply.upper(),
            pirate=f"Arr, nice to meet ye, {name}!",
            facts=[name],
        )

    def today(self, date):
        user = self.casual(self.pick(phrases.TODAY))
        answer = f"Today is {date}." if date else "I am sorry, I do not know today's date."
        found = f"Current date: {date}." if date else "No date is given."
        think = (
            found,
            f"The user asks for the date. {found}",
            f"The user asks for the date. I look at the system message. {found} I can answer with that.",
        )
        return Task(
            "small_talk",
            user,
            think,
            answer,
            word=date or "Unknown",
            shout=answer.upper(),
            pirate=f"Arr, it be {date}, matey!" if date else "Arr, I do not know the date, matey!",
        )

    def unknown(self):
        if self.chance(0.3):
            return self.unknown_task(self.free_question())
        if self.chance(0.3):
            return self.unknown_task(
                self.pick(phrases.UNKNOWN_FIXED).format(
                    n=self.rng.randrange(2, 2030), t=self.pick(words.NOUNS), p=self.pick(words.PEOPLE)
                )
            )
        subject = self.pick(words.TOPICS) if self.chance(0.6) else self.noise_words(self.rng.randint(1, 3))
        return self.unknown_task(self.pick(phrases.UNKNOWN).format(t=subject))

    def free_question(self):
        """A question about anything, from loose parts."""
        opening = self.pick(phrases.FREE_OPENINGS)
        if self.chance(0.4):
            sentence = self.sentence()
            return f"{opening} {sentence[0].lower()}{sentence[1:-1]}?"
        return (
            f"{opening} {self.pick(words.FUNCTION_VERBS)} {self.pick(['a', 'the', 'my', 'some', 'this'])} "
            f"{self.noise_words(self.rng.randint(1, 2))} {self.pick(words.PLACES + words.TIMES + [''] * 20)}".strip()
            + "?"
        )

    def unknown_task(self, user):
        reply = "I am sorry, I do not know that."
        think = (
            "I do not know that.",
            "I do not know the answer to this, so I say so.",
            "The user asks for something that I do not know. I am a very small model, so I should not make up an "
            "answer. I say politely that I do not know.",
        )
        return Task(
            "unknown",
            self.casual(user),
            think,
            reply,
            word="Unknown",
            shout=reply.upper(),
            pirate="Arr, I do not know that, matey!",
        )

    def noise_words(self, n):
        return " ".join(
            (
                self.pick(words.NOUNS)
                if self.chance(0.5)
                else self.pick(words.ADJECTIVES) if self.chance(0.6) else self.syllables(2)
            )
            for _ in range(n)
        )

    # ---- recall -----------------------------------------------------------------------------------

    def fact(self, used):
        """A thing and its value, with a sentence that tells it."""
        while True:
            is_name = self.chance(0.6)
            subject = self.pick(words.NAME_SUBJECTS if is_name else words.NUMBER_SUBJECTS)
            if not self.evaluating and self.chance(0.3):
                first = self.pick(words.NOUNS if self.chance(0.6) else words.PEOPLE)
                subject = (
                    f"{first}'s name"
                    if is_name
                    else self.pick(["{} number", "{} code", "secret {}", "{} {}"]).format(
                        self.pick([first, self.pick(words.ADJECTIVES), "secret"]), self.pick(["number", "id"])
                    )
                )
            if subject not in used:
                break
        used.add(subject)
        value = self.name() if is_name else self.number()
        if "word" in subject or "hint" in subject or "nick" in subject or "user" in subject:
            value = value.replace(" ", "")
        tell = self.phrase(phrases.TELL).format(s=subject, v=value)
        return subject, value, tell[0].upper() + tell[1:]

    def recall(self, n_letters=None):
        """A fact, then about n_letters of other things, then the question about it."""
        rng, used = self.rng, set()
        if n_letters is None:
            n_letters = (
                0
                if self.chance(0.2)
                else (
                    rng.randrange(0, 1200)
                    if self.chance(0.45)
                    else rng.randrange(1200, 4500) if self.chance(0.9) else rng.randrange(4500, 9000)
                )
            )
        facts = [self.fact(used) for _ in range(self.pick([1, 1, 2, 3, 4]))]
        subject, value, tell = self.pick(facts)
        if not self.evaluating and self.chance(0.04):
            return self.never_told(used)
        if n_letters < 400 and self.chance(0.12) and not self.evaluating:  # its question is in no list
            return self.recall_name()
        tells = " ".join(f[2] for f in facts)
        if n_letters > 800 and len(facts) > 1 and self.chance(0.5):
            tells = tell if self.evaluating else tells
        question = self.phrase(phrases.ASK).format(s=subject)
        if self.chance(0.4):
            history, user = (
                [],
                f"{tells}{self.pick([' ', chr(10), chr(10) * 2])}{self.filler(n_letters)}"
                f"{self.pick([chr(10) * 2, chr(10), ' '])}{question}",
            )
        else:
            history = [{"role": "user", "content": tells}, {"role": "assistant", "content": "Noted."}]
            user = question
            while n_letters > 0:
                part = min(n_letters, rng.randrange(150, 1500))
                n_letters -= part
                history += self.filler_turn(part)
        return self.recall_task(subject, value, user, history)

    def recall_task(self, subject, value, user, history):
        think = (
            f"The {subject}: {value}.",
            f"The user asks for the {subject}. Earlier the user told me: {value}.",
            f"The user asks for the {subject}. I look at what the user told me earlier in this conversation. "
            f"The user said that the {subject} is {value}. So the answer is {value}.",
        )
        shout = value.upper() if not value.isdigit() else f"IT IS {value}"
        return Task(
            "recall",
            user,
            think,
            value,
            word=value.replace(" ", "-"),
            shout=shout,
            pirate=f"Arr, it be {value}, matey!",
            history=history,
            facts=[value],
        )

    def recall_name(self):
        """An introduction, a turn or two, and the question for the name."""
        hello = self.introduction()
        history = [{"role": "user", "content": hello.user}, {"role": "assistant", "content": hello.answer}]
        for _ in range(self.rng.randrange(3)):
            history += self.filler_turn(100)
        user = self.pick(
            [
                "What is my name?",
                "Do you remember my name?",
                "Who am I?",
                "What's my name?",
                "Tell me my name.",
            ]
        )
        return self.recall_task("name", hello.facts[0], user, history)

    def never_told(self, used):
        """The question for something that was not told."""
        subject = self.pick([s for s in words.NAME_SUBJECTS + words.NUMBER_SUBJECTS if s not in used])
        task = self.unknown_task(self.phrase(phrases.ASK).format(s=subject))
        if self.chance(0.5):
            fact = self.fact({subject})
            task.history = [{"role": "user", "content": fact[2]}, {"role": "assistant", "content": "Noted."}]
        return task

    def note(self):
        """Something told without a question."""
        if self.chance(0.2):
            turn = self.filler_turn(self.rng.randrange(250, 900))
            user, answer = turn[0]["content"], turn[1]["content"]
            if not answer.startswith("Thank"):
                return self.small_talk()
            return Task(
                "note",
                user,
                (
                    "A text.",
                    "The user shows me a text without a question.",
                    "The user shows me a text but asks nothing about it. I thank the user.",
                ),
                answer,
                plain=True,
            )
        used = set()
        user = " ".join(self.fact(used)[2] for _ in range(self.pick([1, 1, 2, 3])))
        return Task(
            "note",
            user,
            (
                "Noted.",
                "The user tells me something. I keep it in mind.",
                "The user tells me something and asks nothing. I keep it in mind and say so.",
            ),
            "Noted.",
            plain=True,
        )

    def filler_turn(self, n_letters):
        if n_letters < 250 or self.chance(0.3):
            task = self.pick([self.capital, self.small_talk, self.unknown, self.arithmetic])()
            return [{"role": "user", "content": task.user}, {"role": "assistant", "content": task.answer}]
        head = self.pick(
            ["Please read this text.", "Here is a text.", "Look at this:", "I paste some notes here.", ""]
        )
        text = f"{head}\n\n{self.filler(n_letters)}".strip()
        return [
            {"role": "user", "content": text},
            {"role": "assistant", "content": "Thank you, I have read it."},
        ]

    def filler(self, n_letters):
        if n_letters < 20:
            return ""
        if self.chance(0.5 if self.evaluating else 0.3):
            return self.number_filler(n_letters)
        parts, length = [], 0
        while length < n_letters:
            parts.append(self.sentence())
            length += len(parts[-1]) + 1
        return " ".join(parts)

    def sentence(self):
        pick = self.pick
        thing = lambda: (
            f"the {pick(words.ADJECTIVES)} {pick(words.NOUNS)}"
            if self.chance(0.6)
            else f"the {pick(words.NOUNS)}"
        )
        who = lambda: f"the {pick(words.PEOPLE)}" if self.chance(0.7) else self.syllables(2).capitalize()
        form = self.rng.randrange(6)
        if form == 0:
            text = f"{pick(words.TIMES)} {who()} {pick(words.VERBS_PAST)} {thing()} {pick(words.PLACES)}"
        elif form == 1:
            text = f"{who()} {pick(words.VERBS_PAST)} {thing()} and {pick(words.VERBS_PAST)} {thing()}"
        elif form == 2:
            text = f"{thing()} was {pick(words.ADJECTIVES)} and {pick(words.ADJECTIVES)}"
        elif form == 3:
            text = f"there were {self.rng.randrange(2, 99)} {pick(words.NOUNS)} boxes {pick(words.PLACES)}"
        elif form == 4:
            text = f"{who()} said that {thing()} is {pick(words.PLACES)}"
        else:
            text = f"{thing()} {pick(words.PLACES)} belongs to {who()}"
        return text[0].upper() + text[1:] + pick([".", ".", ".", ".", "!", ";"])

    def number_filler(self, n_letters):
        """Tables of numbers: many tokens in few letters."""
        n_letters *= 0.55
        rows, length, separator = [], 0, self.pick([" ", ",", ";", "\t", ", "])
        label = self.pick(["", "row ", "line ", "- ", "item "])
        columns, n = self.rng.randint(3, 10), 0
        while length < n_letters:
            n += 1
            values = separator.join(
                str(self.rng.randrange(10 ** self.rng.randint(1, 4))) for _ in range(columns)
            )
            rows.append(
                f"{label}{n if label not in ('', '- ') else ''}{': ' if label not in ('', '- ') else ''}{values}"
            )
            length += len(rows[-1]) + 1
        return "\n".join(rows)

    # ---- copying ----------------------------------------------------------------------------------

    def script_word(self, script):
        _, first, last = script
        return "".join(chr(self.rng.randint(first, last)) for _ in range(self.rng.randint(1, 7)))

    def copy_text(self):
        n, parts = self.rng.choice([1, 2, 3, 4, 5, 6]), []
        scripts = [self.pick(words.SCRIPTS) for _ in range(self.rng.randint(1, 3))]
        for _ in range(n):
            kind = self.rng.random()
            if kind < 0.55:
                parts.append(self.script_word(self.pick(scripts)))
            elif kind < 0.7:
                parts.append("".join(self.pick(words.EMOJI) for _ in range(self.rng.randint(1, 3))))
            elif kind < 0.8:
                parts.append(self.syllables(self.rng.randint(1, 4)))
            elif kind < 0.9:
                parts.append(self.pick(words.NOUNS if self.chance(0.5) else words.ADJECTIVES))
            elif kind < 0.95:
                parts.append(str(self.rng.randrange(10000)))
            else:
                parts.append(
                    "".join(
                        self.pick("!#$%&()*+-/:;<=>?@[]^_{}~€£¥§©°±²µ¿×÷–—“”„…•™")
                        for _ in range(self.rng.randint(1, 3))
                    )
                )
        text = "".join(p + self.pick([" ", " ", " ", " ", ", ", "-", "", ". "]) for p in parts).strip(" ,-.")
        return text or "é"

    def copy(self):
        text = self.fresh(self.copy_text)
        while self.evaluating and len(text.encode()) == len(text):
            text = self.fresh(self.copy_text)
        user = self.phrase(phrases.COPY).format(t=text)
        if not self.evaluating and self.chance(0.15):
            user = self.pick(phrases.GREETINGS) + user
        think = (
            "Copy the text.",
            "The user wants the text repeated exactly.",
            "The user wants the text repeated exactly. I write every character as it is given, in the same order, "
            "and add nothing.",
        )
        return Task("copy", user, think, text, plain=True, facts=[text])

    # ---- functions --------------------------------------------------------------------------------

    def function_pair(self):
        return self.fresh(lambda: (self.pick(words.FUNCTION_VERBS), self.pick(words.FUNCTION_NOUNS)))

    def argument(self, key):
        """(schema, value, the value as a person writes it) for an argument name."""
        if key in words.ENUM_ARGS:
            value = self.pick(words.ENUM_ARGS[key])
            return {"type": "string", "enum": words.ENUM_ARGS[key]}, value, value
        if key in words.BOOLEAN_ARGS:
            value = self.chance(0.5)
            return {"type": "boolean"}, value, self.pick(["true", "yes"] if value else ["false", "no"])
        if key in words.INTEGER_ARGS:
            value = int(self.number(3, 6)) if self.chance(0.4) else self.rng.randrange(0, 100)
            return {"type": "integer"}, value, str(value)
        if key in words.NUMBER_ARGS:
            value = self.rng.randrange(-500, 20000) / 10 if self.chance(0.7) else self.rng.randrange(0, 1000)
            return {"type": "number"}, value, str(value)
        value = self.string_value()
        quoted = " " in value or self.chance(0.3)
        return {"type": "string"}, value, (self.pick(['"{}"', "'{}'"]) if quoted else "{}").format(value)

    def string_value(self):
        kind = self.rng.random()
        if kind < 0.5:
            return self.name()
        if kind < 0.65:
            return self.pick(list(words.CAPITALS.values())).replace("'", "")
        if kind < 0.85:
            return self.fresh(lambda: self.noise_words(self.rng.randint(1, 3)))
        if kind < 0.93:
            return self.fresh(
                lambda: f"{self.syllables(2)}{self.rng.randrange(1000)}{self.pick(['.txt', '.pdf', '', '-a', '@mail.com'])}"
            )
        return self.fresh(lambda: self.script_word(words.SCRIPTS[self.rng.choice([1, 2, 3, 12, 13, 16])]))

    def function(self, pair=None, n_arguments=None):
        """A made-up function tool, with the keys it has."""
        verb, noun = pair or self.function_pair()
        style = self.pick(
            ["{v}_{n}", "{v}_{n}", "{v}{N}", "{v}{N}", "{n}_{v}", "{v}_a_{n}", "{v}_{n}s", "{V}{N}"]
        )
        name = style.format(v=verb, n=noun, V=verb.capitalize(), N=noun.capitalize())
        n = self.rng.randint(0, 4) if n_arguments is None else n_arguments
        groups = [
            words.STRING_ARGS,
            words.STRING_ARGS,
            words.INTEGER_ARGS,
            words.NUMBER_ARGS,
            words.BOOLEAN_ARGS,
            list(words.ENUM_ARGS),
        ]
        keys = list(dict.fromkeys(self.pick(self.pick(groups)) for _ in range(n)))
        description = self.pick(
            ["{V} a {n}.", "{V} the {n}", "{V}s a {n} for the user.", "Use this to {v} a {n}.", ""]
        )
        return (
            self.tool(name, description.format(V=verb.capitalize(), v=verb, n=noun), keys),
            (verb, noun),
            keys,
        )

    def tool(self, name, description, keys, required=None):
        properties = {}
        for key in keys:
            schema, _, _ = self.argument(key)
            if self.chance(0.4):
                schema = {
                    "type": schema["type"],
                    "description": self.pick(["The {k}.", "{k}", "{k} to use", "the {k} of it"]).format(
                        k=key.replace("_", " ")
                    ),
                    **schema,
                }
            properties[key] = schema
        function = {"name": name}
        if description:
            function["description"] = description
        if keys or self.chance(0.5):
            required = [k for k in keys if self.chance(0.8)] if required is None else required
            function["parameters"] = {"type": "object", "properties": properties}
            if required or self.chance(0.5):
                function["parameters"]["required"] = required
        return {"type": "function", "function": function}

    def request(self, pair, keys):
        """What a person says to have a made-up function called, and the arguments that follow from it."""
        verb, noun = pair
        arguments, said = {}, []
        for key in keys:
            _, value, text = self.argument(key)
            arguments[key] = value
            said.append((key.replace("_", " "), text))
        detail = self.pick(phrases.DETAILS)
        parts = [detail[0].format(k=k, v=v) for k, v in said]
        listed = (
            parts[0]
            if len(parts) == 1
            else detail[1].join(parts[:-1]) + detail[2] + parts[-1] if parts else ""
        )
        opening = self.phrase(phrases.REQUEST).format(v=verb, n=noun, V=verb.capitalize())
        if not parts:
            return opening + self.pick([".", "!", ""]), arguments
        return (
            opening
            + detail[3]
            + listed
            + self.pick([".", "", "."] if not parts[-1][-1].isdigit() else ["", "."]),
            arguments,
        )

    def offered(self, n, like=None):
        """n made-up functions of different names; some resemble the pair (verb, noun) that is asked for."""
        tools = {}
        while len(tools) < n:
            pair = self.function_pair()
            if like and self.chance(0.4):
                pair = self.pick([(like[0], pair[1]), (pair[0], like[1])])
                if pair == like:
                    continue
            tool, _, _ = self.function(pair)
            tools[tool["function"]["name"]] = tool
        return list(tools.values())

    def known_function(self):
        """A function of everyday life with a natural request: (tool, user text, arguments, goal)."""
        spec = self.pick(phrases.KNOWN_FUNCTIONS)
        keys = {slot: self.pick(names) for slot, names in spec["slots"].items()}
        arguments, said, properties = {}, {}, {}
        optional = spec.get("optional", {})
        request = self.pick(spec["requests"])
        for slot, key in keys.items():
            schema, value, text = self.known_value(slot)
            properties[key] = {
                "type": schema["type"],
                **({"description": self.pick(spec["about"])} if self.chance(0.3) else {}),
                **schema,
            }
            if "{" + slot + "}" in request:
                arguments[key], said[slot] = value, text
        for key, schema in optional.items():
            if self.chance(0.5):
                properties[key] = schema
        parameters = {
            "type": "object",
            "properties": properties,
            "required": [k for k in keys.values() if k in arguments],
        }
        function = {
            "name": self.pick(spec["names"]),
            "description": self.pick(spec["descriptions"]),
            "parameters": parameters,
        }
        return {"type": "function", "function": function}, request.format(**said), arguments, spec["goal"]

    def known_value(self, slot):
        if slot in ("city", "place", "to"):
            city = self.pick(list(words.CAPITALS.values())) if self.chance(0.7) else self.name()
            return {"type": "string"}, city, city
        if slot in ("person", "ticker", "item"):
            value = self.pick(words.NOUNS) if slot == "item" else self.name()
            return {"type": "string"}, value, value
        if slot in ("text", "title"):
            value = self.fresh(lambda: self.noise_words(self.rng.randint(1, 4)))
            return {"type": "string"}, value, f'"{value}"'
        if slot in ("minutes", "guests", "hour"):
            value = self.rng.randrange(1, 60)
            return {"type": "integer"}, value, str(value)
        value = int(self.number(2, 5))
        return {"type": "integer"}, value, str(value)

    def tool_call(self):
        pair = None
        if self.chance(0.25) and not self.evaluating:
            tool, user, arguments, goal = self.known_function()
        else:
            pair = self.function_pair()
            tool, pair, keys = self.function(pair)
            required = tool["function"].get("parameters", {}).get("required", [])
            told = [k for k in keys if k in required or self.chance(0.5)]
            user, arguments = self.request(pair, self.rng.sample(told, len(told)))
            goal = " ".join(pair)
        name = tool["function"]["name"]
        others = [
            t
            for t in self.offered(self.pick([1, 1, 2, 2, 3, 4] if self.evaluating else [0, 1, 1, 2, 3]), pair)
            if t["function"]["name"] != name
        ]
        tools = others + [tool]
        self.rng.shuffle(tools)
        listed = (
            ", ".join(f"{k} is {json.dumps(v, ensure_ascii=False)}" for k, v in arguments.items())
            or "no arguments"
        )
        think = (
            f"To {goal}: {name}.",
            f"The user wants to {goal}. I call the function {name}.",
            f"The user wants to {goal}. I look at the functions that I have. The function that fits is {name}. "
            f"The arguments: {listed}. I call {name} now.",
        )
        return Task("tool_call", user, think, tools=tools, call=(name, arguments), plain=True)

    def tool_result(self):
        task = self.tool_call()
        name, arguments = task.call
        text, answer, facts = self.result()
        call_id = f"call_{self.rng.randrange(10 ** 6)}"
        call = {
            "id": call_id,
            "type": "function",
            "function": {
                "name": name,
                "arguments": json.dumps(
                    arguments, ensure_ascii=False, separators=self.pick([(",", ":"), (", ", ": ")])
                ),
            },
        }
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        if self.chance(0.6):
            message["reasoning"] = task.think[self.rng.randrange(3)]
        task.after = [message, {"role": "tool", "tool_call_id": call_id, "content": text}]
        task.think = (
            "Tell the result.",
            f"The function {name} has answered. I tell the user the result.",
            f"The function {name} has answered. I read the result and tell the user every value in it, "
            f"without changing anything.",
        )
        task.ability, task.call, task.answer, task.facts = "tool_result", None, answer, facts
        return task

    def result(self):
        """(what the function returned, the answer, the values the answer must contain)"""
        if self.chance(0.15):
            text = self.fresh(lambda: self.sentence().rstrip(".;!"))
            return text, f"The result: {text}.", [text]
        if self.chance(0.08):
            number = self.number(2, 6)
            return number, f"The result: {number}.", [number]
        values = {}
        for _ in range(self.rng.randint(1, 4)):
            if self.chance(0.5):
                values[self.pick(words.RESULT_STRINGS)] = (
                    self.string_value()
                    if self.chance(0.7)
                    else self.pick(
                        [
                            "ok",
                            "done",
                            "open",
                            "closed",
                            "sent",
                            "cloudy",
                            "sunny",
                            "rainy",
                            "created",
                            "pending",
                            "failed",
                        ]
                    )
                )
            elif self.chance(0.8):
                values[self.pick(words.RESULT_NUMBERS)] = (
                    int(self.number(1, 6)) if self.chance(0.7) else self.rng.randrange(-300, 9999) / 10
                )
            else:
                values[self.pick(["available", "success", "confirmed", "active", "found"])] = self.chance(0.5)
        text = json.dumps(
            values, ensure_ascii=False, **self.pick([{"separators": (",", ":")}, {}, {"indent": 2}])
        )
        spoken = [
            (k.replace("_", " "), v if isinstance(v, str) else json.dumps(v)) for k, v in values.items()
        ]
        parts = [f"the {k} is {v}" for k, v in spoken]
        answer = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
        return text, answer[0].upper() + answer[1:] + ".", [v for _, v in spoken]

    # ---- dressing ---------------------------------------------------------------------------------

    def styled(self, task, effort):
        """The developer's instruction about style, and the target that follows it."""
        style = self.pick(["upper", "one_word", "pirate"])
        if self.chance(0.5):  # then the earlier answers follow the instruction, too
            rewrite = {
                "upper": str.upper,
                "one_word": lambda t: t.split()[0] if len(t) > 30 else t.replace(" ", "-"),
                "pirate": lambda t: f"Arr, it be {t}, matey!" if len(t) < 20 else f"Arr, {t}",
            }[style]
            task.history = [
                dict(m, content=rewrite(m["content"])) if m["role"] == "assistant" else m
                for m in task.history
            ]
        instruction = self.phrase(phrases.STYLE[style])
        if not self.evaluating and self.chance(0.3):
            instruction = self.pick(phrases.STYLE_OPENINGS) + instruction
        if not self.evaluating and self.chance(0.2):
            instruction += self.pick(phrases.STYLE_ENDINGS)
        answer = {"upper": task.shout, "one_word": task.word, "pirate": task.pirate}[style]
        note = {
            "upper": "I answer in capital letters.",
            "one_word": "I answer in one word.",
            "pirate": "I answer as a pirate.",
        }[style]
        return style, instruction, {"analysis": f"{task.think[effort]} {note}", "final": answer}

    def target(self, task, effort):
        if task.call:
            return {"analysis": task.think[effort], "name": task.call[0], "arguments": task.call[1]}
        return {"analysis": task.think[effort], "final": task.answer}

    def assemble(self, task, effort, date, instruction=None):
        messages = [{"role": "developer", "content": instruction}] if instruction else []
        messages += task.history + [{"role": "user", "content": task.user}] + task.after
        conversation = {"effort": EFFORTS[effort], "date": date, "messages": messages}
        if task.tools:
            conversation["tools"] = task.tools
        return conversation

    def earlier_turns(self):
        """Finished turns of other kinds before the request."""
        history = []
        for _ in range(self.pick([1, 1, 2, 3])):
            task = self.pick(
                [
                    self.capital,
                    self.capital,
                    self.arithmetic,
                    self.small_talk,
                    self.introduction,
                    self.unknown,
                    self.copy,
                ]
            )()
            history += task.history + [
                {"role": "user", "content": task.user},
                {"role": "assistant", "content": task.answer},
            ]
        return history

    MIX = {
        "capital": 15,
        "arithmetic": 20,
        "small_talk": 6,
        "introduction": 2,
        "today": 1,
        "unknown": 9,
        "recall": 16,
        "note": 2,
        "copy": 15,
        "tool_call": 30,
        "tool_result": 6,
    }

    def conversation(self, long=True):
        """One training example: (conversation, target)."""
        kind = self.rng.choices(list(self.MIX), self.MIX.values())[0]
        effort, date = self.rng.choices((0, 1, 2), (36, 38, 26))[0], self.date()
        if kind == "today":
            task = self.today(date)
        elif kind == "recall":
            task = self.recall(None if long else self.rng.randrange(0, 400))
        else:
            task = getattr(self, kind)()
        if not task.history and self.chance(0.15):
            task.history = self.earlier_turns()
        if task.tools is None and self.chance(0.12):
            known = [self.known_function()[0] for _ in range(self.pick([0, 1, 1, 2]))]
            task.tools = known[:1] + self.offered(self.rng.randint(0, 2)) + known[1:] or self.offered(1)
        if not task.plain and self.chance(0.36):
            _, instruction, target = self.styled(task, effort)
            if self.chance(0.15):
                task.user, instruction = f"{task.user} {instruction}", None
            elif self.chance(0.15):
                instruction = " ".join(self.rng.sample([self.pick(phrases.NEUTRAL), instruction], 2))
        else:
            instruction = self.pick(phrases.NEUTRAL) if self.chance(0.15) else None
            target = self.target(task, effort)
        conversation = self.assemble(task, effort, date, instruction)
        if self.chance(0.05):
            conversation["identity"] = self.pick(phrases.IDENTITIES)
        return conversation, target


def worked(a, op, b):
    """The working of a sum or a difference at low, medium and high effort, digit by digit."""
    result = a + b if op == "+" else a - b
    swap = op == "-" and a < b
    top, bottom = (b, a) if swap else (a, b)
    n = max(len(str(a)), len(str(b)))
    low, high, carry = [], [], 0
    for k, place in zip(range(n), ("ones", "tens", "hundreds", "thousands")):
        x, y = top // 10**k % 10, bottom // 10**k % 10
        extra = f"{op}{carry}" if carry else ""
        if op == "+":
            total = x + y + carry
            step = f"{x}+{y}{extra}={total}"
            carry = total // 10
            low.append(step)
            high.append(f"{place} {step}, write {total % 10}, carry {carry}")
        else:
            borrow = x - y - carry < 0
            step = f"{x + 10 * borrow}-{y}{extra}={x + 10 * borrow - y - carry}"
            carry = int(borrow)
            low.append(step + ("!" if borrow else ""))
            high.append(f"{place} {step}, {'borrow 1' if borrow else 'no borrow'}")
    relation = "<" if a < b else "=" if a == b else ">"
    order = "" if op == "+" else f"{a}{relation}{b},"
    sign = (
        ""
        if op == "+"
        else f" {a}{relation}{b}, so the result is {'below zero: swap' if swap else 'not below zero'}."
    )
    return (
        f"{order}{','.join(low)}:{result}",
        f"{a}{op}{b}:{sign} {'; '.join(high)}. Result {result}.",
        f"The user asks for {a}{op}{b}. I work from right to left, digit by digit.{sign} "
        + ". ".join(h[0].upper() + h[1:] for h in high)
        + f". So the result of {a}{op}{b} is {result}.",
    )
