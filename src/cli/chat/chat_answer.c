#include "cli/chat/chat_answer.h"

#include "base/clock.h"
#include "cli/terminal/terminal.h"

enum { ANSWER_BYTES_MAX = 64 << 20 };

void answer_init(struct answer *a)
{
    *a = (struct answer){0};
    buf_init(&a->content, ANSWER_BYTES_MAX);
    buf_init(&a->reasoning, ANSWER_BYTES_MAX);
}

void answer_release(struct answer *a)
{
    buf_release(&a->content);
    buf_release(&a->reasoning);
}

static void begin_reasoning(struct answer_printer *p)
{
    FILE *out = p->style->reasoning_out;

    p->in_reasoning = true;
    p->reasoning_start_ns = clock_ns();
    if (p->style->reasoning == REASONING_HIDDEN)
        return;
    terminal_dim(out, true);
    if (p->style->reasoning == REASONING_FOLDED) {
        fputs("thinking", out);
        fflush(out);
    }
}

static void end_reasoning(struct answer_printer *p)
{
    FILE *out = p->style->reasoning_out;

    if (!p->in_reasoning)
        return;
    p->in_reasoning = false;
    if (p->style->reasoning == REASONING_HIDDEN)
        return;
    if (p->style->reasoning == REASONING_FOLDED)
        fprintf(out, " took %.1f s", (double)(clock_ns() - p->reasoning_start_ns) * 1e-9);
    terminal_dim(out, false);
    fputs(p->style->reasoning == REASONING_FOLDED ? "\n" : "\n\n", out);
    fflush(out);
}

void answer_put_reasoning(struct answer_printer *p, const char *text, size_t n_bytes)
{
    buf_append(&p->answer->reasoning, text, n_bytes);
    if (!p->in_reasoning)
        begin_reasoning(p);
    if (p->style->reasoning == REASONING_SHOWN)
        terminal_put(p->style->reasoning_out, text, n_bytes);
}

void answer_put_content(struct answer_printer *p, const char *text, size_t n_bytes)
{
    end_reasoning(p);
    buf_append(&p->answer->content, text, n_bytes);
    terminal_put(p->style->out, text, n_bytes);
}

void answer_end(struct answer_printer *p)
{
    const struct buf *text = &p->answer->content;

    end_reasoning(p);
    if (text->size_bytes == 0 || text->data[text->size_bytes - 1] != '\n')
        fputc('\n', p->style->out);
    fflush(p->style->out);
}

static double rate(int n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

static void print_counts(FILE *out, const struct osp_usage *u)
{
    if (u->n_prompt_tokens == 0 && u->n_generated_tokens == 0)
        fprintf(out, "answer in %.2f s after %.2f s", u->generation_seconds, u->prompt_seconds);
    else
        fprintf(out, "%d tokens in %.2f s (%.1f tokens/s) after a prompt of %d in %.2f s",
                u->n_generated_tokens, u->generation_seconds,
                rate(u->n_generated_tokens, u->generation_seconds), u->n_prompt_tokens,
                u->prompt_seconds);
}

void answer_print_rate(FILE *out, const struct answer *a)
{
    terminal_dim(out, true);
    print_counts(out, &a->usage);
    if (a->finish == OSP_FINISH_LENGTH)
        fputs("; stopped at --max-tokens or the end of the context", out);
    if (a->finish == OSP_FINISH_CANCELED)
        fputs("; stopped", out);
    terminal_dim(out, false);
    fputc('\n', out);
}
