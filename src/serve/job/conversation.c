#include "serve/job/conversation.h"

#include <stdio.h>

#include "base/log.h"
#include "engine/chat/chat_json.h"
#include "serve/fields/json_kwargs.h"

/* Reads the options as a chat request with an empty message, so that one function reads all
 * requests. */
static enum osp_status read_kwargs(struct osp_chat *chat, json_t *kwargs)
{
    json_t *body;
    enum osp_status st;

    if (!json_is_object(kwargs))
        return fail(OSP_EINVAL, "must be a JSON object such as {\"reasoning_effort\": \"high\"}");
    body = json_pack("{s:[{s:s,s:s}],s:O}", "messages", "role", "system", "content", "",
                     "chat_template_kwargs", kwargs);
    if (!body)
        return fail(OSP_ENOMEM, "out of memory for a JSON object");
    st = chat_read_document(chat, body);
    json_decref(body);
    return st;
}

static void read_date(struct server *s, const json_t *date)
{
    if (json_is_string(date)) /* checked by read_kwargs() */
        snprintf(s->chat_defaults.date, sizeof s->chat_defaults.date, "%s",
                 json_string_value(date));
}

static void warn_ignored(const json_t *kwargs)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)kwargs, name, v)
    {
        if (!template_kwarg_is_known(name))
            log_warn("--chat-template-kwargs: \"%.64s\" is ignored; the Harmony format has only "
                     "reasoning_effort, enable_thinking and current_date",
                     name);
    }
}

/* Applies the options to a chat that is only used to check them. --reasoning-effort and
 * --current-date take precedence over --chat-template-kwargs. */
static enum osp_status read_options(struct server *s, struct osp_chat *chat)
{
    const struct serve_options *opt = &s->opt;
    json_t *kwargs = NULL;
    enum osp_status st = OSP_OK;

    if (opt->template_kwargs) {
        kwargs = json_loads(opt->template_kwargs, JSON_REJECT_DUPLICATES, NULL);
        st = read_kwargs(chat, kwargs);
        if (st != OSP_OK)
            TRY(fail_prefix(st, "--chat-template-kwargs"));
        read_date(s, json_object_get(kwargs, "current_date"));
        warn_ignored(kwargs);
    }
    if (opt->effort && (st = osp_chat_set_effort(chat, opt->effort)) != OSP_OK)
        TRY(fail_prefix(st, "--reasoning-effort"));
    if (opt->date && (st = osp_chat_set_date(chat, opt->date)) != OSP_OK)
        TRY(fail_prefix(st, "--current-date"));
    if (opt->date)
        snprintf(s->chat_defaults.date, sizeof s->chat_defaults.date, "%s", opt->date);
out:
    json_decref(kwargs);
    return st;
}

enum osp_status conversation_defaults(struct server *s)
{
    struct osp_chat *chat = osp_chat_new();
    enum osp_status st;

    s->chat_defaults = (struct chat_defaults){.date = "today"};
    TRY(read_options(s, chat));
    s->chat_defaults.effort = osp_chat_effort(chat);
out:
    osp_chat_free(chat);
    return st;
}

enum osp_status conversation_new(struct osp_chat **out, const struct server *s)
{
    struct osp_chat *chat = osp_chat_new();
    enum osp_status st;

    *out = NULL;
    TRY(osp_chat_set_effort(chat, s->chat_defaults.effort));
    TRY(osp_chat_set_date(chat, s->chat_defaults.date));
    *out = chat;
    chat = NULL;
out:
    osp_chat_free(chat);
    return st;
}

enum osp_status conversation_read(struct osp_chat **out, const struct server *s, const json_t *body)
{
    enum osp_status st;

    TRY(conversation_new(out, s));
    TRY(chat_read_document(*out, body));
out:
    if (st != OSP_OK) {
        osp_chat_free(*out);
        *out = NULL;
    }
    return st;
}
