#include "engine/worker/wire_fields.h"

#include <assert.h>
#include <string.h>

/* ---- the tables have the layout of the structs ---- */

#define MIRROR_TEXT(member)        const char *member;
#define MIRROR_VALUE(type, member) type member;
#define MIRROR(name, fields)                                                                       \
    struct name##_mirror {                                                                         \
        fields(MIRROR_TEXT, MIRROR_VALUE, MIRROR_VALUE)                                            \
    };                                                                                             \
    static_assert(sizeof(struct name##_mirror) == sizeof(struct osp_##name##_options),             \
                  "a field of osp_" #name "_options is not in its table in wire_fields.h");
WIRE_OPTIONS_LIST(MIRROR)

#define SAME_PLACE(name, member)                                                                   \
    static_assert(offsetof(struct name##_mirror, member) ==                                        \
                      offsetof(struct osp_##name##_options, member),                               \
                  #member " of osp_" #name "_options has another place in wire_fields.h");
#define MODEL_TEXT(member)          SAME_PLACE(model, member)
#define MODEL_VALUE(type, member)   SAME_PLACE(model, member)
#define ENGINE_TEXT(member)         SAME_PLACE(engine, member)
#define ENGINE_VALUE(type, member)  SAME_PLACE(engine, member)
#define REQUEST_TEXT(member)        SAME_PLACE(request, member)
#define REQUEST_VALUE(type, member) SAME_PLACE(request, member)
MODEL_OPTION_FIELDS(MODEL_TEXT, MODEL_VALUE, MODEL_VALUE)
ENGINE_OPTION_FIELDS(ENGINE_TEXT, ENGINE_VALUE, ENGINE_VALUE)
REQUEST_OPTION_FIELDS(REQUEST_TEXT, REQUEST_VALUE, REQUEST_VALUE)

/* ---- strings: a count, then that many bytes with the NUL; count 0 is NULL ---- */

static void put_text(struct wire *w, const char *text)
{
    uint32_t n = text != NULL ? (uint32_t)strlen(text) + 1 : 0;

    wire_put(w, &n, sizeof n);
    wire_put(w, text, n);
}

static const char *take_text(struct frame *f)
{
    const char *text;
    uint32_t n;

    frame_take(f, &n, sizeof n);
    if (n == 0)
        return NULL;
    text = frame_view(f, n);
    if (text != NULL && memchr(text, '\0', n) == text + n - 1)
        return text;
    f->is_bad = true;
    return NULL;
}

/* ---- the functions ---- */

#define PUT_TEXT(member)         put_text(w, opt->member);
#define PUT_VALUE(type, member)  wire_put(w, &opt->member, sizeof opt->member);
#define TAKE_TEXT(member)        out->member = take_text(f);
#define TAKE_VALUE(type, member) frame_take(f, &out->member, sizeof out->member);
#define STAYS_HERE(type, member)

#define WIRE_OPTIONS(name, fields)                                                                 \
    void wire_put_##name##_options(struct wire *w, const struct osp_##name##_options *opt)         \
    {                                                                                              \
        fields(PUT_TEXT, PUT_VALUE, STAYS_HERE)                                                    \
    }                                                                                              \
                                                                                                   \
    void wire_take_##name##_options(struct frame *f, struct osp_##name##_options *out)             \
    {                                                                                              \
        memset(out, 0, sizeof *out);                                                               \
        fields(TAKE_TEXT, TAKE_VALUE, STAYS_HERE)                                                  \
    }
WIRE_OPTIONS_LIST(WIRE_OPTIONS)

/* ---- lists of (name, value) ---- */

void wire_put_device_options(struct wire *w, const struct osp_model_options *opt)
{
    wire_put(w, &opt->n_device_options, sizeof opt->n_device_options);
    for (int i = 0; i < opt->n_device_options; i++) {
        put_text(w, opt->device_options[i].name);
        put_text(w, opt->device_options[i].value);
    }
}

void wire_take_device_options(struct frame *f, wire_device_options list,
                              struct osp_model_options *out)
{
    int n = 0;

    frame_take(f, &n, sizeof n);
    if (n < 0 || n > OSP_DEVICE_OPTIONS_MAX) {
        f->is_bad = true;
        n = 0;
    }
    for (int i = 0; i < n; i++) {
        list[i].name = take_text(f);
        list[i].value = take_text(f);
    }
    out->device_options = list;
    out->n_device_options = n;
}
