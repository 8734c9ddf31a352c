#include "cli/terminal/chat_answer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/terminal/terminal.h"

enum { ANSWER_BYTES_MAX = 64 << 20, POLL_MS = 50 /* between checks for Ctrl-C */ };

/* ---- Ctrl-C ---- */

/* Each Ctrl-C puts a byte into a pipe, so that poll() can wait for it together with input,
 * whichever thread gets the signal. */
static int interrupt_pipe[2] = {-1, -1};

static void on_interrupt(int number)
{
    int error = errno;

    (void)number;
    if (write(interrupt_pipe[1], "", 1) < 0) /* the pipe is full of earlier ones */
        errno = error;
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};

    if (interrupt_pipe[0] < 0 && pipe2(interrupt_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        return; /* Ctrl-C then ends the program as usual */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int interrupt_descriptor(void)
{
    return interrupt_pipe[0];
}

bool interrupt_consume(void)
{
    bool taken = false;
    char bytes[64];

    while (interrupt_pipe[0] >= 0 && read(interrupt_pipe[0], bytes, sizeof bytes) > 0)
        taken = true;
    return taken;
}

/* ---- the answer ---- */

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

/* State of the output. */
struct printer {
    const struct answer_style *style;
    struct answer *answer;
    bool in_reasoning;
    uint64_t reasoning_start_ns;
};

static void begin_reasoning(struct printer *p)
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

static void end_reasoning(struct printer *p)
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

static void print_reasoning(struct printer *p, const struct osp_event *event)
{
    buf_append(&p->answer->reasoning, event->text, event->n_bytes);
    if (!p->in_reasoning)
        begin_reasoning(p);
    if (p->style->reasoning == REASONING_SHOWN)
        terminal_put(p->style->reasoning_out, event->text, event->n_bytes);
}

static void print_text(struct printer *p, const struct osp_event *event)
{
    end_reasoning(p);
    buf_append(&p->answer->content, event->text, event->n_bytes);
    terminal_put(p->style->out, event->text, event->n_bytes);
}

static enum osp_status on_event(struct printer *p, const struct osp_event *event)
{
    if (event->kind == OSP_EVENT_REASONING)
        print_reasoning(p, event);
    else if (event->kind == OSP_EVENT_TEXT)
        print_text(p, event);
    else if (event->kind == OSP_EVENT_ERROR)
        return fail(event->status, "%s", event->text ? event->text : "the request failed");
    else if (event->kind == OSP_EVENT_DONE) {
        p->answer->usage = event->usage;
        p->answer->finish = event->finish;
    }
    return OSP_OK;
}

static enum osp_status read_events(struct printer *p, struct osp_request *request)
{
    struct osp_event event = {.kind = OSP_EVENT_NONE};
    enum osp_status st = OSP_OK;

    while (st == OSP_OK && event.kind != OSP_EVENT_DONE) {
        if (interrupt_consume())
            osp_cancel(request);
        st = osp_next_event(request, POLL_MS, &event);
        if (st == OSP_ETIMEOUT)
            st = OSP_OK;
        else if (st == OSP_OK)
            st = on_event(p, &event);
    }
    return st;
}

/* Ends the answer with a newline. */
static void end_line(struct printer *p)
{
    const struct buf *text = &p->answer->content;

    end_reasoning(p);
    if (text->size_bytes == 0 || text->data[text->size_bytes - 1] != '\n')
        fputc('\n', p->style->out);
    fflush(p->style->out);
}

enum osp_status answer_run(struct answer *a, struct osp_engine *engine, const struct osp_chat *chat,
                           const struct osp_request_options *opt, const struct answer_style *style)
{
    struct printer printer = {.style = style, .answer = a};
    struct osp_request *request = NULL;
    enum osp_status st;

    (void)interrupt_consume();
    TRY(osp_submit_chat(&request, engine, chat, opt));
    st = read_events(&printer, request);
    end_line(&printer);
out:
    osp_request_close(request);
    return st;
}

static double rate(int n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

void answer_print_rate(FILE *out, const struct answer *a)
{
    const struct osp_usage *u = &a->usage;

    terminal_dim(out, true);
    fprintf(out, "%d tokens in %.2f s (%.1f tokens/s) after a prompt of %d in %.2f s",
            u->n_generated_tokens, u->generation_seconds,
            rate(u->n_generated_tokens, u->generation_seconds), u->n_prompt_tokens,
            u->prompt_seconds);
    if (a->finish == OSP_FINISH_LENGTH)
        fputs("; stopped at --max-tokens or the end of the context", out);
    if (a->finish == OSP_FINISH_CANCELED)
        fputs("; stopped", out);
    terminal_dim(out, false);
    fputc('\n', out);
}
