/* The scanner. A backtracking engine tries seven alternatives in order at each position:
 *
 *   1  P? A* B+ C?      P: no letter, number, CR or LF     A: Lu Lt Lm Lo M
 *   2  P? A+ B* C?      B: Ll Lm Lo M                      C: 's 't 're 've 'm 'll 'd, any case
 *   3  N{1,3}
 *   4  " "? S+ [CR LF /]*    S: neither white space nor letter nor number
 *   5  W* [CR LF]+           W: white space
 *   6  W+ unless followed by other than W
 *   7  W+
 *
 * Each alternative is implemented below as one forward scan that records what the engine would find
 * by backtracking. The number of times that a character is read is bounded by a constant, however
 * long the text. */
#include "text/token/pretokenize.h"

#include <stdbool.h>
#include <stdint.h>

#include "text/token/unicode_tables.h"

#define PREFIX      "[^\\r\\n\\p{L}\\p{N}]?"
#define IN_A        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define IN_B        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

#define WORD_1  PREFIX IN_A "*" IN_B "+" CONTRACTION
#define WORD_2  PREFIX IN_A "+" IN_B "*" CONTRACTION
#define NUMBER  "\\p{N}{1,3}"
#define SYMBOLS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define WHITE   "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char pretok_pattern[] = WORD_1 "|" WORD_2 "|" NUMBER "|" SYMBOLS "|" WHITE;

enum {
    SET_A = CHAR_UPPER | CHAR_LETTER | CHAR_MARK,
    SET_B = CHAR_LOWER | CHAR_LETTER | CHAR_MARK,
    SET_AB = CHAR_LETTER | CHAR_MARK,
    SET_PREFIX = CHAR_OTHER | CHAR_MARK | CHAR_SPACE,
    SET_SYMBOL = CHAR_OTHER | CHAR_MARK,
    SET_WHITE = CHAR_SPACE | CHAR_NEWLINE,
    DIGITS_MAX = 3
};

struct text {
    const unsigned char *data;
    size_t n_bytes;
};

struct character {
    unsigned class; /* one bit of enum char_class; 0 at the end of the text */
    size_t end;     /* where the next character begins */
};

static inline struct character character_at(struct text t, size_t at)
{
    const unsigned char *u = t.data + at;
    uint32_t code_point;

    if (at >= t.n_bytes)
        return (struct character){0, at};
    if (u[0] < 0x80)
        return (struct character){unicode_blocks[0][u[0]], at + 1};
    if (u[0] < 0xE0) {
        code_point = (u[0] & 0x1Fu) << 6 | (u[1] & 0x3Fu);
        return (struct character){unicode_class(code_point), at + 2};
    }
    if (u[0] < 0xF0) {
        code_point = (u[0] & 0x0Fu) << 12 | (u[1] & 0x3Fu) << 6 | (u[2] & 0x3Fu);
        return (struct character){unicode_class(code_point), at + 3};
    }
    code_point = (u[0] & 0x07u) << 18 | (u[1] & 0x3Fu) << 12 | (u[2] & 0x3Fu) << 6 | (u[3] & 0x3Fu);
    return (struct character){unicode_class(code_point), at + 4};
}

/* End of the longest run of characters of a set. */
static size_t run_end(struct text t, size_t at, unsigned set)
{
    struct character c = character_at(t, at);

    while (c.class & set) {
        at = c.end;
        c = character_at(t, at);
    }
    return at;
}

/* Whether the byte at `at` is this lower-case letter in either case. */
static bool letter_at(struct text t, size_t at, char letter)
{
    return at < t.n_bytes && (t.data[at] | 0x20) == (unsigned char)letter;
}

/* End of the contraction at `at`, or `at` itself. U+017F is a form of s. */
static size_t contraction_end(struct text t, size_t at)
{
    static const char one[] = "stmd";
    static const char two[][2] = {{'r', 'e'}, {'v', 'e'}, {'l', 'l'}};

    if (at >= t.n_bytes || t.data[at] != '\'')
        return at;
    for (size_t i = 0; i < sizeof one - 1; i++)
        if (letter_at(t, at + 1, one[i]))
            return at + 2;
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (letter_at(t, at + 1, two[i][0]) && letter_at(t, at + 2, two[i][1]))
            return at + 3;
    if (t.n_bytes - at >= 3 && t.data[at + 1] == 0xC5 && t.data[at + 2] == 0xBF)
        return at + 3;
    return at;
}

struct word {
    size_t end;
    bool has_b; /* matched by A* B+, so alternative 1; else by A+ B*, or empty */
};

/* Alternatives 1 and 2 after the prefix, without the contraction. A* takes the whole run of A. If
 * no lower case follows, B+ backtracks to the last character of that run that is also in B. All
 * characters after it are upper case, so B+ is this one character. */
static struct word letters_at(struct text t, size_t at)
{
    struct character c = character_at(t, at);
    size_t last_shared_end = 0;

    while (c.class & SET_A) {
        if (c.class & SET_AB)
            last_shared_end = c.end;
        at = c.end;
        c = character_at(t, at);
    }
    if (c.class & CHAR_LOWER)
        return (struct word){run_end(t, c.end, SET_B), true};
    if (last_shared_end)
        return (struct word){last_shared_end, true};
    return (struct word){at, false};
}

/* Alternatives 1 and 2, or `start`. Both try with the prefix first. But a mark that is followed by
 * upper case only, or by nothing, is by itself the B+ of alternative 1, which precedes alternative
 * 2. */
static size_t word_end(struct text t, size_t start, struct character first)
{
    size_t begin = first.class & SET_PREFIX ? first.end : start;
    struct word w = letters_at(t, begin);

    if (!w.has_b && first.class == CHAR_MARK)
        return contraction_end(t, first.end);
    return w.end == begin ? start : contraction_end(t, w.end);
}

/* Alternative 3, at the start of a number. */
static size_t number_end(struct text t, struct character first)
{
    size_t end = first.end;

    for (int n = 1; n < DIGITS_MAX; n++) {
        struct character c = character_at(t, end);

        if (c.class != CHAR_NUMBER)
            break;
        end = c.end;
    }
    return end;
}

/* Alternative 4, or `start`. */
static size_t symbols_end(struct text t, size_t start)
{
    size_t begin = start + (t.data[start] == ' ');
    size_t end = run_end(t, begin, SET_SYMBOL);

    if (end == begin)
        return start;
    while (end < t.n_bytes && (t.data[end] == '/' || t.data[end] == '\r' || t.data[end] == '\n'))
        end++;
    return end;
}

/* Alternatives 5 to 7, at the start of white space. The piece ends after the last CR or LF of the
 * run. Without one, it is the whole run at the end of the text; otherwise all but its last
 * character, which may begin the next word, unless it is the only one. */
static size_t white_end(struct text t, size_t start)
{
    struct character c = character_at(t, start);
    size_t at = start, last_start = start, newline_end = 0;

    while (c.class & SET_WHITE) {
        if (c.class == CHAR_NEWLINE)
            newline_end = c.end;
        last_start = at;
        at = c.end;
        c = character_at(t, at);
    }
    if (newline_end)
        return newline_end;
    return at == t.n_bytes || last_start == start ? at : last_start;
}

size_t pretok_next(const char *text, size_t n_bytes, size_t start)
{
    struct text t = {(const unsigned char *)text, n_bytes};
    struct character first = character_at(t, start);
    size_t end;

    if (first.class == CHAR_NUMBER)
        return number_end(t, first);
    if (first.class != CHAR_NEWLINE) {
        end = word_end(t, start, first);
        if (end > start)
            return end;
        end = symbols_end(t, start);
        if (end > start)
            return end;
    }
    return white_end(t, start);
}
