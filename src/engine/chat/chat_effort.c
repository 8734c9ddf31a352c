#include "engine/chat/chat_effort.h"

#include <string.h>

struct effort_row {
    const char *name;
    enum harmony_effort effort;
};

/* The three levels of gpt-oss, in the order of enum harmony_effort, and the OpenAI API's names for
 * less and for more. The model has no level without reasoning. */
static const struct effort_row efforts[] = {
    {"low", EFFORT_LOW},     {"medium", EFFORT_MEDIUM}, {"high", EFFORT_HIGH}, {"none", EFFORT_LOW},
    {"minimal", EFFORT_LOW}, {"xhigh", EFFORT_HIGH},    {"max", EFFORT_HIGH},
};

bool effort_find(const char *name, enum harmony_effort *out)
{
    for (size_t i = 0; name != NULL && i < sizeof efforts / sizeof efforts[0]; i++) {
        if (strcmp(name, efforts[i].name) != 0)
            continue;
        *out = efforts[i].effort;
        return true;
    }
    return false;
}

const char *effort_name(enum harmony_effort effort)
{
    return efforts[effort - EFFORT_LOW].name;
}

static void find_in_line(const char *line, size_t n_bytes, enum harmony_effort *out)
{
    static const char mark[] = "Reasoning: ";
    const size_t n_mark = sizeof mark - 1;

    if (n_bytes < n_mark || memcmp(line, mark, n_mark) != 0)
        return;
    while (n_bytes > n_mark && (line[n_bytes - 1] == ' ' || line[n_bytes - 1] == '\r'))
        n_bytes--;
    for (enum harmony_effort e = EFFORT_LOW; e <= EFFORT_HIGH; e++)
        if (strlen(effort_name(e)) == n_bytes - n_mark &&
            memcmp(line + n_mark, effort_name(e), n_bytes - n_mark) == 0)
            *out = e;
}

void effort_find_in_text(const char *text, size_t n_bytes, enum harmony_effort *out)
{
    const char *end = text + n_bytes;

    while (text < end) {
        const char *feed = memchr(text, '\n', (size_t)(end - text));

        find_in_line(text, (size_t)((feed != NULL ? feed : end) - text), out);
        text = feed != NULL ? feed + 1 : end;
    }
}
