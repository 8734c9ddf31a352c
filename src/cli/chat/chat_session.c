#include "cli/chat/chat_session.h"

#include <stdlib.h>
#include <string.h>

#include "cli/chat/chat_commands.h"
#include "cli/chat/chat_line.h"
#include "cli/terminal/interrupt.h"

enum { MESSAGE_BYTES_MAX = 16 << 20 };

enum osp_status chat_start(struct conversation *out, const struct chat_setup *setup)
{
    enum osp_status st = OSP_OK;

    if (setup->effort)
        TRY(conversation_set_effort(out, setup->effort));
    if (setup->system)
        conversation_set_system(out, setup->system);
out:
    return st;
}

static void count(struct chat_session *s, const struct answer *a)
{
    s->n_answers++;
    s->n_prompt_tokens += a->usage.n_prompt_tokens;
    s->n_tokens += a->usage.n_generated_tokens;
    s->generation_seconds += a->usage.generation_seconds;
}

/* A message that got no answer because of an error leaves the conversation, so that it can be sent
 * again. */
static enum osp_status respond(struct chat_session *s, const struct chat_setup *setup,
                               const char *message)
{
    struct answer a;
    enum osp_status st;

    answer_init(&a);
    conversation_add(&s->conversation, "user", message, NULL);
    st = s->source.answer(s->source.self, &a, &s->conversation, &s->request, &setup->style);
    if (st != OSP_OK) {
        conversation_drop_last(&s->conversation);
    } else {
        count(s, &a);
        if (!setup->quiet)
            answer_print_rate(stderr, &a);
        if (a.content.size_bytes > 0)
            conversation_add(&s->conversation, "assistant", buf_text(&a.content),
                             a.reasoning.size_bytes > 0 ? buf_text(&a.reasoning) : NULL);
    }
    answer_release(&a);
    return st;
}

static void converse(struct chat_session *s, const struct chat_setup *setup,
                     struct chat_line *lines)
{
    struct buf line;
    enum line_result result = LINE_READ;

    buf_init(&line, MESSAGE_BYTES_MAX);
    while (!s->is_done && result != LINE_END) {
        enum osp_status st = OSP_OK;

        result = chat_line_read(lines, &line);
        if (result == LINE_READ && line.overflow)
            st = fail(OSP_ELIMIT, "the message is larger than the limit of %d bytes",
                      (int)MESSAGE_BYTES_MAX);
        else if (result == LINE_READ && line.size_bytes > 0)
            st = line.data[0] == '/' ? chat_command_run(s, line.data + 1)
                                     : respond(s, setup, line.data);
        if (st != OSP_OK)
            fprintf(stderr, "%s\n", osp_error());
    }
    if (result == LINE_END)
        putchar('\n');
    buf_release(&line);
}

enum osp_status chat_session_run(const struct chat_setup *setup)
{
    struct chat_session s = {.source = setup->source, .request = setup->request};
    struct chat_line *lines;
    enum osp_status st;

    TRY(chat_start(&s.conversation, setup));
    interrupt_catch();
    lines = chat_line_open(chat_command_complete);
    converse(&s, setup, lines);
    chat_line_close(lines);
out:
    conversation_release(&s.conversation);
    free(s.file);
    return st;
}
