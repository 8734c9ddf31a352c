#include "cli/chat/chat_local.h"

#include <string.h>

#include "cli/terminal/interrupt.h"

enum { POLL_MS = 50 /* between checks for Ctrl-C */ };

static enum osp_status on_event(struct answer_printer *p, const struct osp_event *event)
{
    if (event->kind == OSP_EVENT_REASONING)
        answer_put_reasoning(p, event->text, event->n_bytes);
    else if (event->kind == OSP_EVENT_TEXT)
        answer_put_content(p, event->text, event->n_bytes);
    else if (event->kind == OSP_EVENT_ERROR)
        return fail(event->status, "%s", event->text ? event->text : "the request failed");
    else if (event->kind == OSP_EVENT_DONE) {
        p->answer->usage = event->usage;
        p->answer->finish = event->finish;
    }
    return OSP_OK;
}

static enum osp_status read_events(struct answer_printer *p, struct osp_request *request)
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

static enum osp_status add_messages(struct osp_chat *chat, const struct conversation *c)
{
    enum osp_status st = OSP_OK;

    if (c->effort)
        TRY(osp_chat_set_effort(chat, c->effort));
    for (size_t i = 0; i < c->n; i++) {
        const struct chat_message *m = &c->messages[i];

        if (strcmp(m->role, "assistant") == 0)
            TRY(osp_chat_add_assistant(chat, m->reasoning, m->content));
        else
            TRY(osp_chat_add(chat, m->role, m->content));
    }
out:
    return st;
}

static enum osp_status local_answer(void *self, struct answer *out, const struct conversation *c,
                                    const struct osp_request_options *opt,
                                    const struct answer_style *style)
{
    const struct chat_local *l = self;
    struct answer_printer printer = {.style = style, .answer = out};
    struct osp_chat *chat = osp_chat_new();
    struct osp_request *request = NULL;
    enum osp_status st;

    (void)interrupt_consume();
    TRY(add_messages(chat, c));
    TRY(osp_submit_chat(&request, l->engine, chat, opt));
    st = read_events(&printer, request);
    answer_end(&printer);
out:
    osp_request_close(request);
    osp_chat_free(chat);
    return st;
}

static const char *local_model(void *self)
{
    const struct chat_local *l = self;
    struct osp_model_info info;

    osp_model_get_info(l->model, &info);
    return info.name;
}

static enum osp_status local_set_model(void *self, const char *name)
{
    return fail(OSP_EUNSUPPORTED,
                "/model %s: the model %s is loaded in this process; start another chat with osprey "
                "chat %s, or use a server with --url",
                name, local_model(self), name);
}

static void local_describe(void *self)
{
    const struct chat_local *l = self;
    struct osp_model_info info;

    osp_model_get_info(l->model, &info);
    printf("%s on %s; context length %d tokens\n", info.name, info.device, info.context_tokens_max);
}

struct chat_source chat_local_source(struct chat_local *l)
{
    return (struct chat_source){.self = l,
                                .answer = local_answer,
                                .model = local_model,
                                .set_model = local_set_model,
                                .describe = local_describe};
}
