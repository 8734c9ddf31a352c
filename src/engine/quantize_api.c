/* osp_quantize over model/quantize_save.c. */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "engine/bundled.h"
#include "model/quantize_save.h"
#include "osprey_tools.h"
#include "text/token/tokenizer_write.h"

enum { TOKENIZER_BYTES_MAX = 64 << 20 }; /* what tokenizer_open() reads; gpt-oss has 28 MB */

static const int64_t SHARD_BYTES_MAX = 5000000000; /* the shard size of Hugging Face's tools */

static_assert((int)OSP_LAYERS_TEXT_BYTES >= (int)MXFP4_LAYERS_TEXT_BYTES,
              "the text of all layers fits");

/* Of a GGUF file. */
static enum osp_status make_tokenizer_json(char **text, size_t *n_bytes, const char *path)
{
    struct tokenizer *t = NULL;
    struct buf json;
    enum osp_status st;

    buf_init(&json, TOKENIZER_BYTES_MAX);
    TRY(tokenizer_open(&t, path));
    TRY(tokenizer_write_json(t, &json));
    *n_bytes = json.size_bytes;
    *text = buf_take(&json);
out:
    tokenizer_close(t);
    buf_release(&json);
    return st;
}

enum osp_status osp_quantize(const struct osp_quantize_options *opt,
                             struct osp_quantize_report *out)
{
    struct quantize_save_options save = {
        .from = opt->path,
        .to = opt->out,
        .force = opt->force,
        .shard_bytes_max = opt->shard_bytes_max > 0 ? opt->shard_bytes_max : SHARD_BYTES_MAX,
        .n_threads = opt->n_threads,
        .tokenizer_json = make_tokenizer_json,
        .stop = opt->stop,
        .progress = opt->progress,
        .progress_ctx = opt->progress_ctx,
    };
    struct quantize_save_report report;
    char *bundled = NULL;
    enum osp_status st;

    TRY(mxfp4_layers_parse(&save.mxfp4_layers, opt->mxfp4_layers ? opt->mxfp4_layers : "all"));
    if (!save.from) {
        TRY(bundled_model_path(&bundled));
        save.from = bundled;
    }
    TRY(quantize_save(&save, &report));
    *out = (struct osp_quantize_report){.n_files = report.n_files,
                                        .n_tensors = report.n_tensors,
                                        .from_bytes = report.from_bytes,
                                        .to_bytes = report.to_bytes};
    mxfp4_layers_text(out->new_layers, report.new_mxfp4_layers);
    mxfp4_layers_text(out->layers, report.mxfp4_layers);
out:
    free(bundled);
    return st;
}
