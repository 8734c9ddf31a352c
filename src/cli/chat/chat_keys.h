/* Keys of the line editor besides libedit's own: a paste of several lines is one message (bracketed
 * paste), and Tab completes commands. */
#ifndef CLI_CHAT_CHAT_KEYS_H
#define CLI_CHAT_CHAT_KEYS_H

#include <histedit.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    COMPLETIONS_MAX = 64,
    PASTE_CHARACTERS_MAX = 1 << 20, /* more tokens than the longest context has */
};

/* Words that the last n_typed bytes of a line can become; owned. */
struct completions {
    size_t n_typed;
    int n;
    char *words[COMPLETIONS_MAX];
};

/* Adds a copy of the word; words beyond COMPLETIONS_MAX are left out. */
void completions_add(struct completions *c, const char *word);

/* Fills the empty `out` for the text before the cursor. */
typedef void chat_complete_fn(struct completions *out, const char *line);

/* The editor's EL_CLIENTDATA. */
struct chat_keys {
    chat_complete_fn *complete; /* NULL: Tab inserts itself */
    bool in_block;              /* between two """ lines */
    bool has_paste;             /* the terminal may mark pastes */
};

/* Binds the keys, unless ~/.editrc chose vi's: there Escape is a key of its own, with which the
 * mark of a paste begins. `keys` must live as long as `el`. */
void chat_keys_bind(EditLine *el, struct chat_keys *keys);

/* Asks the terminal to mark pastes, or not to. On only while a line is read, as readline does, so
 * that a program that ends early leaves the terminal as it was. */
void chat_keys_mark_pastes(const struct chat_keys *keys, bool on);

#endif
