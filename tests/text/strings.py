"""Seeded strings that are hard on a tokenizer: every kind of character next to every other kind."""

import random
import unicodedata

WHITE = ["\t", "\n", "\v", "\f", "\r", " ", "\x85", "\xa0", "\u1680", "\u2000", "\u2007", "\u200a",
         "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"]
NEARLY_WHITE = ["\u200b", "\u200d", "\u2060", "\ufeff", "\u180e", "\x1c", "\x1f", "\x00", "\x7f"]
QUOTES = ["'", "'", "'", "\u2019", "`", "\""]
SUFFIXES = ["s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Re", "rE", "VE", "vE", "M", "LL", "lL",
            "D", "\u017f", "\u017ft", "x", "l", "r", "v", "e", "\u212a", "st", "sS", "re\u0301", "\u00df"]
SENTENCES = [
    "The quick brown fox doesn't jump over 13 lazy dogs; it's WE'LL-known that they'd rather sleep.",
    "Größe und Übermaß: 1.234,56 € für die Straße.", "Où est l'hôtel? J'aimerais y aller aujourd'hui.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "日本語のテキストを書いて、トークンに分けます。",
    "안녕하세요, 세계! 오늘 날씨가 좋네요.", "我们今天去北京参观故宫博物院，明天回上海。", "مرحبا بالعالم ١٢٣٤ كيف حالك؟",
    "नमस्ते दुनिया, १२३ क़िताबें हैं।", "สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง", "Γειά σου Κόσμε, τί κάνεις;",
    "שלום עולם, מה שלומך היום?", "Tiếng Việt có rất nhiều dấu thanh điệu.", "ǅ ǈ ᾈ ﬁ ﬀ ʰ ˈ ª º ⅷ ² ½ ㊿",
    "for (int i = 0; i < n; i++) { sum += a[i] * b[i]; } // dot\n\treturn sum;\n}\n",
    "def f(x):\n    \"\"\"doc\"\"\"\n    return {k: v for k, v in x.items() if v != None}\n\n\n",
    "https://example.com/a/b//c?d=e&f=%20g#h\r\n\r\nGET /index.html HTTP/1.1\r\n", "<|start|>user<|message|>hi<|end|>",
    "| a | b |\n|---|:-:|\n| 1 | 2,000 |\n", "{\"key\": [1, 2.5e-10, null], \"x\\n\": \"\\u00e9\"}",
    "HTTPServer XMLHttpRequest camelCaseWord snake_case_word SCREAMING_CASE iPhone McDonald's O'NEIL'S",
]
EMOJI = ["👩‍👩‍👧‍👦", "👨🏽‍💻", "🏳️‍🌈", "🇫🇷🇩🇪", "❤️", "1️⃣", "🧑🏿‍🤝‍🧑🏻", "💖", "☺️", "🏴\U000e0067\U000e0062\U000e007f", "\u200d", "\ufe0f"]
PAIRS = "!=  == && || -> :: // /* */ <!-- --> ... ?? ++ -- << >>= \\n \\\\ ## --- ___ *** '' \"\" () {} []".split()


def pools():
    """Characters by general category, so that rare ones are not rare."""
    by_category = {}
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            by_category.setdefault(unicodedata.category(chr(code)), []).append(chr(code))
    by_category["space"] = WHITE
    by_category["newline"] = ["\r", "\n", "\r\n"]
    by_category["ascii"] = [chr(c) for c in range(128)]
    by_category["latin"] = [chr(c) for c in range(0x41, 0x250)]
    by_category["split"] = list(" /'\n\raAbB1!.\u0301\u3042\u02b0\u01c5")
    return by_category


class Strings:
    """`tokens`: byte strings of the vocabulary, or any others, to build strings from."""

    def __init__(self, tokens):
        self.tokens = tokens
        self.pools = pools()
        self.pool_lists = list(self.pools.values())
        self.kinds = [(4, self.company), (3, self.categories), (2, self.words), (2, self.white_runs),
                      (2, self.sentences), (2, self.from_tokens), (2, self.ill_formed), (1, self.anything),
                      (1, self.digits), (1, self.emoji), (1, self.code), (1, self.marks)]

    def make(self, seed, n):
        """n byte strings, most of them UTF-8."""
        self.r = random.Random(seed)
        weights = [w for w, _ in self.kinds]
        kinds = self.r.choices([k for _, k in self.kinds], weights, k=n)
        strings = [kind() for kind in kinds]
        for i in range(0, n, 500):
            strings[i] = self.long_run()
        return [s.encode() if isinstance(s, str) else s for s in strings]

    def choose(self, items, at_most):
        return self.r.choices(items, k=self.r.randint(1, at_most))

    def company(self):
        """The characters that the scanner's decisions depend on, next to each other."""
        return "".join(self.choose(self.pools["split"], 14))

    def categories(self):
        return "".join(self.r.choice(pool) for pool in self.choose(self.pool_lists, 16))

    def words(self):
        word = lambda: "".join(self.choose(self.pools[self.r.choice(["Ll", "Lu", "latin", "Lo", "Lt", "Lm", "ascii"])], 5))
        parts = [word() + self.r.choice(QUOTES) + self.r.choice(SUFFIXES) for _ in range(self.r.randint(1, 4))]
        return self.r.choice(["", " ", "\u0301", "\n"]).join(parts)

    def white_runs(self):
        run = lambda: "".join(self.choose(self.r.choice([WHITE, WHITE[:6], " ", " \n", "\r\n", NEARLY_WHITE + WHITE]), 9))
        return "".join(self.r.choice(["", "a", "B", "1", "!", "\u0301", "/", "\u3042"]) + run()
                       for _ in range(self.r.randint(1, 4))) + self.r.choice(["", "z", "."])

    def sentences(self):
        text = " ".join(self.choose(SENTENCES, 3))
        start = self.r.randrange(len(text))
        text = text[start : start + self.r.randint(1, 90)]
        return self.r.choice([text, text, text.upper(), text.title(), unicodedata.normalize("NFD", text)])

    def from_tokens(self):
        return b"".join(self.choose(self.tokens, 7))

    def ill_formed(self):
        text = bytearray(self.r.choice([self.sentences, self.categories])().encode())
        for _ in range(self.r.randint(1, 6)):
            at = self.r.randint(0, len(text))
            text[at : at + self.r.randint(0, 2)] = bytes(self.choose(
                [0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xA0, 0x9F, 0xEF, 0xF0, 0x90, 0xF4, 0x8F, 0xF5, 0xFF, 0x41], 3))
        return bytes(text)

    def anything(self):
        codes = [self.r.randrange(0x110000 - 0x800) for _ in range(self.r.randint(1, 12))]
        return "".join(chr(c if c < 0xD800 else c + 0x800) for c in codes)

    def digits(self):
        pool = self.pools[self.r.choice(["Nd", "Nl", "No", "ascii"])]
        parts = ["".join(self.choose(self.r.choice([pool, "0123456789"]), 7)) for _ in range(self.r.randint(1, 4))]
        return self.r.choice(["", ",", ".", " ", "e-", "x", "\u0301"]).join(parts)

    def emoji(self):
        return "".join(self.choose(EMOJI + ["a", " ", "!"], 8))

    def code(self):
        return "".join(self.choose(PAIRS + ["x", "i0", " ", "    ", "\n", "\n\n", "\t", "foo_Bar", "0xFF", ";\n"], 14))

    def marks(self):
        marks = self.choose(self.pools["Mn"] + self.pools["Mc"], 6)
        return "".join(self.r.choice(["", "a", "A", " ", "!", "1", "\n", "\u3042", "'s"]) + m for m in marks)

    def long_run(self):
        unit = self.r.choice([self.company, self.categories, self.from_tokens, self.emoji, self.white_runs])()
        unit = unit.encode() if isinstance(unit, str) else unit
        return unit[: self.r.randint(1, 8)] * self.r.randint(20, 600)
