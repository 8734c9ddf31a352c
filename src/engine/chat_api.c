/* The chat functions of osprey.h that do not access a chat's inside. */
#include <string.h>

#include "engine/chat/chat.h"
#include "engine/core/model_api.h"

static struct harmony_text text_of(const char *s)
{
    return (struct harmony_text){s, s != NULL ? strlen(s) : 0};
}

enum osp_status osp_chat_add(struct osp_chat *chat, const char *role, const char *content)
{
    if (role == NULL || content == NULL)
        return fail(OSP_EINVAL, "a message needs a role and content");
    return chat_add_text(chat, role, NULL, text_of(content));
}

enum osp_status osp_chat_add_assistant(struct osp_chat *chat, const char *reasoning,
                                       const char *content)
{
    return chat_add_assistant_text(chat, text_of(reasoning), text_of(content));
}

enum osp_status osp_chat_add_tool_call(struct osp_chat *chat, const char *id, const char *name,
                                       const char *arguments_json)
{
    if (id == NULL || name == NULL || arguments_json == NULL)
        return fail(OSP_EINVAL, "a tool call needs an id, a name and arguments");
    return chat_add_call_text(chat, id, name, text_of(arguments_json));
}

enum osp_status osp_chat_add_tool_result(struct osp_chat *chat, const char *call_id,
                                         const char *content)
{
    if (call_id == NULL || content == NULL)
        return fail(OSP_EINVAL, "a tool's result needs the call's id and content");
    return chat_add_result_text(chat, call_id, text_of(content));
}

enum osp_status osp_chat_render(const struct osp_chat *chat, const struct osp_tokenizer *t,
                                int32_t **ids, size_t *n)
{
    struct ids rendered;
    enum osp_status st;

    *ids = NULL;
    *n = 0;
    ids_init(&rendered, CHAT_TOKENS_MAX);
    st = chat_render_ids(chat, tokenizer_of(t), &rendered);
    if (st != OSP_OK) {
        ids_release(&rendered);
        return st;
    }
    *ids = rendered.data;
    *n = rendered.n;
    return OSP_OK;
}
