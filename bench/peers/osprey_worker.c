/* osprey as a process that answers lines, through the public API alone: one prompt in, one JSON
 * answer out. Started by engines.py, which also documents the lines.
 *
 *     osprey_worker CHECKPOINT TOKENIZER THREADS TOKENS_MAX MXFP4_LAYERS BATCH_TOKENS_MAX
 *     N_GENERATE N_PROMPT TOKEN TOKEN ...                (one line a prompt) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "osprey.h"
#include "osprey_tools.h"

enum { STAGES_MAX = 64, TEXT_BYTES_MAX = 1 << 16 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "osprey_worker: %s: %s\n", what, osp_error());
    exit(1);
}

/* Bytes that all stages touched since the model was opened, by the engine's own count. */
static double bytes_so_far(const struct osp_model *model)
{
    struct osp_stage_cost costs[STAGES_MAX];
    int n = osp_model_stage_costs(model, costs, STAGES_MAX);
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += costs[i].bytes;
    return sum;
}

/* Collects text until the last event, which it gives. */
static struct osp_event listen(struct osp_request *request, char *text, size_t *n_bytes)
{
    struct osp_event event;

    for (;;) {
        if (osp_next_event(request, -1, &event) != OSP_OK)
            die("next event");
        if (event.kind == OSP_EVENT_ERROR) {
            fprintf(stderr, "osprey_worker: %s\n", event.text);
            exit(1);
        }
        if (event.kind == OSP_EVENT_DONE)
            return event;
        if (event.kind == OSP_EVENT_TEXT && *n_bytes + event.n_bytes <= TEXT_BYTES_MAX) {
            memcpy(text + *n_bytes, event.text, event.n_bytes);
            *n_bytes += event.n_bytes;
        }
    }
}

static void answer(struct osp_engine *engine, const struct osp_model *model, const int32_t *ids,
                   size_t n_ids, int n_generate)
{
    static char text[TEXT_BYTES_MAX];
    size_t n_bytes = 0;
    double bytes = bytes_so_far(model);
    struct osp_request *request;
    struct osp_event done;

    if (osp_submit_tokens(&request, engine, ids, n_ids,
                          &(struct osp_request_options){
                              .tokens_max = n_generate,
                              .sampling = {.has_temperature = true},
                              .raw = true,
                              .ignore_stop_tokens = true,
                          }) != OSP_OK)
        die("submit");
    done = listen(request, text, &n_bytes);
    printf("{\"prefill_seconds\": %.9f, \"decode_seconds\": %.9f, \"n_generated\": %d, "
           "\"bytes\": %.0f, \"text\": \"",
           done.usage.prompt_seconds, done.usage.generation_seconds, done.usage.n_generated_tokens,
           bytes_so_far(model) - bytes);
    for (size_t i = 0; i < n_bytes; i++)
        printf("%02x", (unsigned char)text[i]);
    printf("\"}\n");
    fflush(stdout);
    osp_request_close(request);
}

/* Reads N_PROMPT ids of a line from `at`; gives an array to free(). */
static int32_t *read_ids(const char *at, size_t n)
{
    int32_t *ids = calloc(n, sizeof(*ids));

    for (size_t i = 0; ids && i < n; i++) {
        char *end;

        ids[i] = (int32_t)strtol(at, &end, 10);
        if (end == at) {
            free(ids);
            return NULL;
        }
        at = end;
    }
    return ids;
}

static void serve_lines(struct osp_engine *engine, const struct osp_model *model)
{
    char *line = NULL, *at;
    size_t room = 0;

    while (getline(&line, &room, stdin) > 0) {
        int n_generate = (int)strtol(line, &at, 10);
        long n = strtol(at, &at, 10);
        int32_t *ids = n > 0 ? read_ids(at, (size_t)n) : NULL;

        if (!ids || n_generate < 1) {
            fprintf(stderr, "osprey_worker: not a command: %.60s\n", line);
            exit(1);
        }
        answer(engine, model, ids, (size_t)n, n_generate);
        free(ids);
    }
    free(line);
}

static void open_model(struct osp_model **out, char **words)
{
    struct osp_model_options options = {
        .path = words[1],
        .tokenizer = words[2],
        .device = "cpu",
        .n_threads = atoi(words[3]),
        .context_tokens_max = atoi(words[4]),
        .n_seqs_max = 1,
        .mxfp4_layers = words[5],
        .n_batch_tokens_max = atoi(words[6]),
    };

    if (osp_model_open(out, &options) != OSP_OK)
        die("open");
}

int main(int argc, char **argv)
{
    struct osp_model *model;
    struct osp_engine *engine;
    struct osp_model_info info;

    if (argc != 7) {
        fprintf(
            stderr,
            "usage: osprey_worker CHECKPOINT TOKENIZER THREADS TOKENS_MAX MXFP4_LAYERS BATCH\n");
        return 2;
    }
    open_model(&model, argv);
    if (osp_engine_open(&engine, model, NULL) != OSP_OK)
        die("engine");
    osp_model_get_info(model, &info);
    printf("{\"load_seconds\": %.3f, \"weight_bytes\": %lld, \"device\": \"%s\", "
           "\"version\": \"%s\"}\n",
           info.load_seconds, (long long)info.weight_bytes, info.device, osp_version());
    fflush(stdout);
    serve_lines(engine, model);
    osp_engine_close(engine);
    osp_model_close(model);
    return 0;
}
