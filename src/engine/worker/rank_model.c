#include "engine/worker/rank_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

struct fixed {
    struct wire_hello hello;
    struct memory_plan plan;
    uint64_t fingerprint;
};

enum osp_status rank_model_write(struct buf *out, const struct osp_model_options *opt,
                                 const struct model_part *part)
{
    struct wire w = {.fd = -1, .out = *out};
    struct fixed fixed;

    memset(&fixed, 0, sizeof fixed);
    fixed.hello = wire_hello_make();
    fixed.hello.text = part->text;
    fixed.plan = part->plan;
    fixed.fingerprint = part->fingerprint;
    wire_put(&w, &fixed, sizeof fixed);
    wire_put_model_options(&w, opt);
    wire_put_device_options(&w, opt);
    *out = w.out;
    return out->overflow ? buf_failure(out, "the options for other ranks") : OSP_OK;
}

enum osp_status rank_model_read(struct rank_model_frame *out, const void *data, size_t n_bytes)
{
    struct frame f = {.kind = FRAME_OPEN, .n_left = n_bytes};
    struct fixed fixed;
    enum osp_status st;

    TRY(mem_try_array(&out->bytes, n_bytes, 1, "options of rank 0"));
    memcpy(out->bytes, data, n_bytes);
    f.at = out->bytes;
    frame_take(&f, &fixed, sizeof fixed);
    TRY(wire_hello_check(&fixed.hello));
    log_set_level((enum log_level)fixed.hello.log_level);
    log_set_format((enum log_format)fixed.hello.log_format);
    wire_take_model_options(&f, &out->options);
    wire_take_device_options(&f, out->device_options, &out->options);
    TRY(frame_end(&f));
    out->part = (struct model_part){
        .text = fixed.hello.text, .plan = fixed.plan, .fingerprint = fixed.fingerprint};
out:
    return st;
}

void rank_model_release(struct rank_model_frame *f)
{
    free(f->bytes);
    f->bytes = NULL;
}
