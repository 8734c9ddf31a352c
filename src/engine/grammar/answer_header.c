#include "engine/grammar/answer_header.h"

#include <stdio.h>

enum { HEADER_BYTES_MAX = HARMONY_NAME_BYTES_MAX + 64 };

/* The phrase before + name + behind, followed by the token `stop`. */
static enum osp_status add(struct choice_set *p, const char *before, const char *name,
                           const char *behind, struct choice choice)
{
    char text[HEADER_BYTES_MAX];

    snprintf(text, sizeof text, "%s%s%s", before, name, behind);
    return choice_set_add(p, text, choice);
}

/* The content types that may follow the recipient or, with one before, the channel's name. */
static enum osp_status add_types(struct choice_set *p, const char *before, const char *name,
                                 const struct special_ids *s, int function)
{
    const struct choice plain = {.stop = s->message, .kind = MESSAGE_CALL, .meaning = function};
    const struct choice marked = {.stop = s->constrain, .kind = MESSAGE_CALL, .meaning = function};
    enum osp_status st;

    TRY(add(p, before, name, "", plain));
    TRY(add(p, before, name, " json", plain));
    TRY(add(p, before, name, " ", marked));
out:
    return st;
}

static enum osp_status add_function(struct answer_headers *h, const struct special_ids *s,
                                    const char *name, int function)
{
    const struct choice role = {.stop = s->channel, .kind = MESSAGE_CALL, .meaning = function};
    enum osp_status st;

    TRY(add(&h->roles, "assistant to=functions.", name, "", role));
    TRY(add_types(&h->channels, "commentary to=functions.", name, s, function));
out:
    return st;
}

static enum osp_status add_plain(struct choice_set *p, const char *text, int32_t stop,
                                 unsigned kind)
{
    const struct choice choice = {.stop = stop, .kind = kind, .meaning = NO_FUNCTION};

    return choice_set_add(p, text, choice);
}

enum osp_status answer_headers_init(struct answer_headers *h, const struct special_ids *s,
                                    const struct call_rules *rules)
{
    size_t n_functions = rules != NULL ? rules->n_functions : 0;
    enum osp_status st;

    *h = (struct answer_headers){.roles = {.items = NULL}};
    TRY(add_plain(&h->roles, "assistant", s->channel, MESSAGE_ANY));
    TRY(add_plain(&h->channels, "analysis", s->message, MESSAGE_REASONING));
    TRY(add_plain(&h->channels, "final", s->message, MESSAGE_FINAL));
    TRY(add_plain(&h->channels, "commentary", s->message, MESSAGE_PREAMBLE));
    TRY(add_types(&h->called_channels, "commentary", "", s, NO_FUNCTION));
    TRY(add_plain(&h->types, "json", s->message, MESSAGE_CALL));
    for (size_t i = 0; i < n_functions; i++)
        TRY(add_function(h, s, rules->functions[i].name, (int)i));
    choice_set_sort(&h->roles);
    choice_set_sort(&h->channels);
    choice_set_sort(&h->called_channels);
out:
    return st;
}

void answer_headers_release(struct answer_headers *h)
{
    choice_set_release(&h->roles);
    choice_set_release(&h->channels);
    choice_set_release(&h->called_channels);
    choice_set_release(&h->types);
}
