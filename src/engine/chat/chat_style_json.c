/* How a request asks for its conversation to be rendered: the effort, in every spelling that
 * clients use, and the date. The first spelling in this order that is present counts; all are
 * checked. */
#include "engine/chat/chat_style_json.h"

#include <jansson.h>

/* A level by its name. */
static enum osp_status take_level(struct osp_chat *chat, const struct place *p, bool *is_known)
{
    const char *name;
    enum osp_status st;

    if (place_is_absent(p))
        return OSP_OK;
    TRY(place_string(p, &name));
    if (*is_known)
        TRY(place_within(p, chat_check_effort(name)));
    else
        TRY(place_within(p, osp_chat_set_effort(chat, name)));
    *is_known = true;
out:
    return st;
}

/* Reasoning on or off: the model always reasons, so that false means the lowest effort. */
static enum osp_status take_switch(struct osp_chat *chat, const struct place *p, bool *is_known)
{
    if (place_is_absent(p))
        return OSP_OK;
    if (!json_is_boolean(p->value))
        return place_mismatch(p, "true or false");
    if (*is_known || json_is_true(p->value))
        return OSP_OK;
    *is_known = true;
    return osp_chat_set_effort(chat, "low");
}

/* Ollama's field: a level or a switch. */
static enum osp_status take_think(struct osp_chat *chat, const struct place *p, bool *is_known)
{
    return place_is_string(p) ? take_level(chat, p, is_known) : take_switch(chat, p, is_known);
}

static enum osp_status take_date(struct osp_chat *chat, const struct place *p)
{
    const char *date;
    enum osp_status st;

    if (place_is_absent(p))
        return OSP_OK;
    TRY(place_string(p, &date));
    TRY(place_within(p, osp_chat_set_date(chat, date)));
out:
    return st;
}

static enum osp_status object_or_absent(const struct place *p)
{
    return place_is_absent(p) ? OSP_OK : place_object(p);
}

enum osp_status chat_read_style(struct osp_chat *chat, const struct place *body)
{
    struct place effort = place_member(body, "reasoning_effort");
    struct place reasoning = place_member(body, "reasoning");
    struct place nested = place_member(&reasoning, "effort");
    struct place kwargs = place_member(body, "chat_template_kwargs");
    struct place of_kwargs = place_member(&kwargs, "reasoning_effort");
    struct place thinking = place_member(&kwargs, "enable_thinking");
    struct place date = place_member(&kwargs, "current_date");
    struct place think = place_member(body, "think");
    bool is_known = false;
    enum osp_status st;

    TRY(object_or_absent(&reasoning));
    TRY(object_or_absent(&kwargs));
    TRY(take_level(chat, &effort, &is_known));
    TRY(take_level(chat, &nested, &is_known));
    TRY(take_level(chat, &of_kwargs, &is_known));
    TRY(take_think(chat, &think, &is_known));
    TRY(take_switch(chat, &thinking, &is_known));
    if (!is_known)
        chat_take_effort_of_instructions(chat);
    TRY(take_date(chat, &date));
out:
    return st;
}
