/* An answer's life, and how it fails. */
#include "answers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT_BYTES_MAX = 1 << 22,
    SENT_BACK_EVERY =
        8 /* two in so many streams, one of either kind: it takes as long as all else */
};

const char *const answer_functions[N_FUNCTIONS] = {"get_weather", "search"};

void answer_die(const struct answer *a, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (a->name != NULL)
        fprintf(stderr, "row %s: ", a->name);
    else
        fprintf(stderr, "stream %llu: ", (unsigned long long)a->number);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nits tokens:");
    for (size_t i = 0; i < a->ids.n; i++)
        fprintf(stderr, " %d", (int)a->ids.data[i]);
    fprintf(stderr, "\n");
    exit(1);
}

void says_init(struct says *t)
{
    buf_init(&t->reasoning, TEXT_BYTES_MAX);
    buf_init(&t->content, TEXT_BYTES_MAX);
    buf_init(&t->calls, TEXT_BYTES_MAX);
}

void says_clear(struct says *t)
{
    buf_clear(&t->reasoning);
    buf_clear(&t->content);
    buf_clear(&t->calls);
}

void says_release(struct says *t)
{
    buf_release(&t->reasoning);
    buf_release(&t->content);
    buf_release(&t->calls);
}

void says_add_call(struct says *t, const char *name)
{
    buf_printf(&t->calls, "\2%s\1", name);
}

void answer_init(struct answer *a, const struct tokenizer *t, struct results *results)
{
    *a = (struct answer){.t = t, .results = results};
    ids_init(&a->ids, 2 * STREAM_IDS_MAX);
    says_init(&a->oracle);
    says_init(&a->whole);
    says_init(&a->streamed);
    buf_init(&a->message, TEXT_BYTES_MAX);
    buf_init(&a->pushed, TEXT_BYTES_MAX);
    buf_init(&a->brought, TEXT_BYTES_MAX);
    buf_init(&a->out, TEXT_BYTES_MAX);
}

void answer_release(struct answer *a)
{
    ids_release(&a->ids);
    says_release(&a->oracle);
    says_release(&a->whole);
    says_release(&a->streamed);
    buf_release(&a->message);
    buf_release(&a->pushed);
    buf_release(&a->brought);
    buf_release(&a->out);
}

static void compare(const struct answer *a, const char *what, const char *part,
                    const struct buf *got, const struct buf *want)
{
    if (got->size_bytes != want->size_bytes ||
        memcmp(buf_text(got), buf_text(want), got->size_bytes) != 0)
        answer_die(a, "%s: %s:\n%s\nwanted:\n%s", what, part, buf_text(got), buf_text(want));
}

void answer_compare(const struct answer *a, const char *what, const struct says *got,
                    const struct says *want)
{
    compare(a, what, "reasoning", &got->reasoning, &want->reasoning);
    compare(a, what, "content", &got->content, &want->content);
    compare(a, what, "calls", &got->calls, &want->calls);
    if (got->finish != want->finish)
        answer_die(a, "%s: finish %s, wanted %s", what, osp_finish_text(got->finish),
                   osp_finish_text(want->finish));
}

void answer_check(struct answer *a)
{
    const bool is_sent_back = a->name != NULL || a->number % SENT_BACK_EVERY < 2;

    answer_ask_oracle(a);
    if (is_sent_back)
        history_begin(a);
    answer_reply(a);
    answer_compare(a, "streamed", &a->streamed, &a->oracle);
    answer_compare(a, "whole", &a->whole, &a->oracle);
    if (is_sent_back)
        history_check(a);
    atomic_fetch_add(&a->results->n_cut, a->is_cut);
    atomic_fetch_add(&a->results->n_tokens, a->ids.n);
}
