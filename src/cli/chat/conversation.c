#include "cli/chat/conversation.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "osprey.h"

void conversation_release(struct conversation *c)
{
    while (c->n > 0)
        conversation_drop_last(c);
    free(c->messages);
    free(c->effort);
    *c = (struct conversation){0};
}

void conversation_add(struct conversation *c, const char *role, const char *content,
                      const char *reasoning)
{
    mem_grow(&c->messages, c->n, &c->capacity, sizeof *c->messages);
    c->messages[c->n++] =
        (struct chat_message){.role = mem_strdup(role),
                              .content = mem_strdup(content),
                              .reasoning = reasoning ? mem_strdup(reasoning) : NULL};
}

void conversation_drop_last(struct conversation *c)
{
    struct chat_message *last = &c->messages[--c->n];

    free(last->role);
    free(last->content);
    free(last->reasoning);
}

const char *conversation_system(const struct conversation *c)
{
    const bool has_system = c->n > 0 && (strcmp(c->messages[0].role, "system") == 0 ||
                                         strcmp(c->messages[0].role, "developer") == 0);

    return has_system ? c->messages[0].content : NULL;
}

void conversation_restart(struct conversation *c)
{
    const size_t n_kept = conversation_system(c) ? 1 : 0;

    while (c->n > n_kept)
        conversation_drop_last(c);
}

void conversation_set_system(struct conversation *c, const char *system)
{
    while (c->n > 0)
        conversation_drop_last(c);
    if (system)
        conversation_add(c, "system", system, NULL);
}

enum osp_status conversation_set_effort(struct conversation *c, const char *effort)
{
    struct osp_chat *chat = osp_chat_new(); /* knows the values */
    enum osp_status st = osp_chat_set_effort(chat, effort);

    osp_chat_free(chat);
    if (st != OSP_OK)
        return st;
    free(c->effort);
    c->effort = mem_strdup(effort);
    return OSP_OK;
}
