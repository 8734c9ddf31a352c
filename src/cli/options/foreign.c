#include "cli/options/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define HARMONY    "gpt-oss's Harmony format is built in"
#define FIXED      "osprey chooses this itself"
#define ONE_DEVICE "all weights are in the memory of one device"
#define GRAPHS     "CUDA graphs are captured for each step size when it is used"
#define STORED     "weights are used as they are stored"
#define MAPPED     "checkpoints are always mapped"
#define ONE        "osprey runs in one process on one device"
#define NEUTRAL    "tokens are drawn by temperature, top_p, top_k and min_p"
#define DOWNLOAD                                                                                   \
    "osprey does not download models; fetch one first, for example with hf download "              \
    "openai/gpt-oss-20b, and give its name"

#define REFUSED "" /* the only value that may be ignored: none */

static const struct foreign_option FOREIGN[] = {
    {"--trust-remote-code", FOREIGN_NONE, NULL, "no code of a checkpoint is ever run"},
    {"--jinja,--enable-auto-tool-choice,--prefill-assistant,--skip-chat-parsing", FOREIGN_NONE,
     NULL, HARMONY},
    {"--chat-template,--chat-template-file,--chat-template-content-format,--tool-call-parser,"
     "--reasoning-parser,--reasoning-format,--response-role",
     FOREIGN_ONE, NULL, HARMONY},
    {"--reasoning-budget", FOREIGN_ONE, NULL,
     "requests say reasoning_effort; serve has --reasoning-effort"},
    {"--tool-server", FOREIGN_ONE, NULL, "the client runs the tools"},
    {"--n-gpu-layers,--gpu-layers,-ngl,--n-cpu-moe,-ncmoe,--override-tensor,-ot,--main-gpu,"
     "-mg,--split-mode,-sm,--tensor-split,-ts,-dev,--cpu-offload-gb",
     FOREIGN_ONE, NULL, ONE_DEVICE},
    {"--swap-space", FOREIGN_ONE, NULL,
     "host memory for preempted requests is sized by the KV cache"},
    {"--compilation-config,-cc,--max-cudagraph-capture-size,--cudagraph-capture-sizes,"
     "--cuda-graph-sizes,--max-seq-len-to-capture",
     FOREIGN_ONE, NULL, GRAPHS},
    {"-O0,-O1,-O2,-O3", FOREIGN_NONE, NULL, GRAPHS},
    {"--cpu-moe,-cmoe,--op-offload,--kv-offload,-nkvo,--enable-sleep-mode", FOREIGN_NONE, NULL,
     ONE_DEVICE},
    {"--fit,-fit", FOREIGN_MODE, NULL, ONE_DEVICE},
    {"--flash-attn,-fa", FOREIGN_MODE, NULL, FIXED},
    {"--async-scheduling", FOREIGN_NONE, NULL,
     "steps are planned while others run, which serve's --no-async-scheduling turns off"},
    {"--enable-chunked-prefill,--cont-batching,-cb,-nocb,--kv-unified,-kvu,"
     "--warmup,--repack,-nr,--swa-full,--cascade-attn,--disable-cascade-attn",
     FOREIGN_NONE, NULL, FIXED},
    {"--ubatch-size,-ub,--block-size,--threads-batch,-tb,--threads-http,"
     "--moe-backend,--distributed-executor-backend,--prio,--prio-batch,"
     "--poll,--num-gpu-blocks-override,"
     "--api-server-count,--kernel-config,--attention-config.,--optimization-level,"
     "--performance-mode",
     FOREIGN_ONE, NULL, FIXED},
    {"--numa,--cpu-mask,-C,--cpu-range,-Cr,--cpu-strict", FOREIGN_ONE, NULL, "use --cpu-affinity"},
    {"--stream-interval", FOREIGN_ONE, NULL, "every token is sent as it comes"},
    {"--scheduling-policy", FOREIGN_ONE, NULL,
     "API keys take turns; of one key priority comes first, then users take turns, then arrival"},
    {"--enable-prefix-caching,--cache-prompt,--cache-idle-slots", FOREIGN_NONE, NULL,
     "serve has a prefix cache, which its --no-prefix-cache turns off"},
    {"--prefix-caching-hash-algo,--cache-reuse,--cache-ram,-cram,--ctx-checkpoints,-ctxcp,"
     "--swa-checkpoints,--slot-prompt-similarity,-sps,--slot-save-path,--kv-offloading-size,"
     "--kv-offloading-backend",
     FOREIGN_ONE, NULL, "the prefix cache takes what the KV cache has free"},
    {"--context-shift", FOREIGN_NONE, NULL, "an answer ends where its context is full"},
    {"--keep", FOREIGN_ONE, NULL, "an answer ends where its context is full"},
    {"--speculative-config,--spec-type,--model-draft,-md,--hf-repo-draft,-hfd,--draft,"
     "--draft-max,--draft-min,--draft-n,--draft-n-min,--draft-p-min,--gpu-layers-draft,-ngld,"
     "--ctx-size-draft,-cd",
     FOREIGN_ONE, NULL, "there is no speculative decoding; answers are the same without"},
    {"--dtype,--quantization,--safetensors-load-strategy,--model-loader-extra-config,"
     "--max-parallel-loading-workers,--model-impl,--config-format,--tokenizer-mode",
     FOREIGN_ONE, NULL, STORED},
    {"--mmap,--mlock,--direct-io,-dio,--no-host", FOREIGN_NONE, NULL, MAPPED},
    {"--load-mode,-lm", FOREIGN_ONE, NULL, MAPPED},
    {"--check-tensors", FOREIGN_NONE, NULL, "osprey validate checks a checkpoint"},
    {"--code-revision,--tokenizer-revision,--task,--runner,--convert", FOREIGN_ONE, NULL,
     "a checkpoint is taken as its folder has it"},
    {"--offline", FOREIGN_NONE, NULL, "osprey never uses the network for models"},
    {"--sleep-idle-seconds", FOREIGN_ONE, NULL, "weights stay loaded"},
    {"--tensor-parallel-size,-tp,--pipeline-parallel-size,-pp,--data-parallel-size,-dp,"
     "--decode-context-parallel-size,-dcp",
     FOREIGN_ONE, NULL, "osprey runs on one device, where the whole model has to fit"},
    {"--nnodes", FOREIGN_ONE, "1", ONE},
    {"--all2all-backend,--data-parallel-size-local,--data-parallel-backend", FOREIGN_ONE, NULL,
     ONE},
    {"--enable-expert-parallel,--disable-custom-all-reduce,--enable-eplb,--enable-dbo",
     FOREIGN_NONE, NULL, ONE},
    {"--disable-log-requests,--enable-log-requests,--disable-log-stats,"
     "--disable-uvicorn-access-log,--disable-fastapi-docs,--disable-frontend-multiprocessing,"
     "--webui,--ui,--perf",
     FOREIGN_NONE, NULL, "there is nothing to switch off"},
    {"--log-disable,--verbose,--log-verbose,-v,--log-prefix,--log-timestamps", FOREIGN_NONE, NULL,
     "use --log-level"},
    {"--uvicorn-log-level,--verbosity,--log-verbosity,-lv,--log-config-file,--log-config,"
     "--max-log-len",
     FOREIGN_ONE, NULL, "use --log-level"},
    {"--log-colors", FOREIGN_MODE, NULL, "use --log-level"},
    {"--log-file", FOREIGN_ONE, NULL, "the log goes to standard error"},
    {"--metrics", FOREIGN_NONE, NULL, "/metrics is always served"},
    {"--props,--slots", FOREIGN_NONE, NULL, "only the endpoints of --help are served"},
    {"--mmproj-auto,--mmproj-offload,--no-mmproj,--language-model-only", FOREIGN_NONE, NULL,
     "osprey writes text only"},
    {"--limit-mm-per-prompt,--mm-processor-cache-gb", FOREIGN_ONE, NULL, "osprey writes text only"},
    {"--generation-config,--override-generation-config,--samplers,--sampling-seq,"
     "--sampler-seq,--repeat-last-n,--mirostat-lr,--mirostat-ent,--dry-base,"
     "--dry-allowed-length,--dry-penalty-last-n,--dry-sequence-breaker,--xtc-threshold,"
     "--dynatemp-exp",
     FOREIGN_ONE, NULL, "use --temperature, --top-p, --top-k and --min-p"},
    {"--backend-sampling,-bs", FOREIGN_NONE, NULL,
     "use --temperature, --top-p, --top-k and --min-p"},
    {"--presence-penalty,--frequency-penalty,--mirostat,--dry-multiplier,--xtc-probability,"
     "--dynatemp-range",
     FOREIGN_ONE, "0", NEUTRAL},
    {"--repeat-penalty,--repetition-penalty,--typical,--typical-p", FOREIGN_ONE, "1", NEUTRAL},
    {"--top-n-sigma,--top-nsigma", FOREIGN_ONE, "-1", NEUTRAL},
    {"--timeout,-to", FOREIGN_ONE, NULL,
     "see --request-timeout, --request-time-limit, --idle-timeout and --stall-timeout"},
    {"--max-logprobs,--logprobs-mode", FOREIGN_ONE, NULL, "requests ask for up to 20"},
    {"--guided-decoding-backend,--structured-outputs-config", FOREIGN_ONE, NULL,
     "forms are compiled here"},
    {"--enable-force-include-usage", FOREIGN_NONE, NULL, "requests ask for it with stream_options"},
    {"--allowed-methods,--allowed-headers,--cors-methods,--cors-headers", FOREIGN_ONE, NULL,
     "the answer to an allowed page says it"},
    {"--allow-credentials,--cors-credentials", FOREIGN_NONE, NULL,
     "the answer to an allowed page says it"},
    {"--hf-repo,-hf,-hfr,--hf-file,-hff,--model-url,-mu,--docker-repo,-dr,--hf-token,-hft",
     FOREIGN_ONE, REFUSED, DOWNLOAD},
    {"--gpt-oss-20b-default,--gpt-oss-120b-default", FOREIGN_NONE, REFUSED, DOWNLOAD},
    {"--models-preset", FOREIGN_ONE, REFUSED,
     "give each option here, in a --config file or as OSPREY_NAME in the environment"},
    {"--models-dir,--models-max", FOREIGN_ONE, REFUSED,
     "one process serves one model; start one for each"},
    {"--ssl-key-file,--ssl-cert-file,--ssl-keyfile,--ssl-certfile,--ssl-ca-certs,"
     "--ssl-cert-reqs",
     FOREIGN_ONE, REFUSED, "TLS is the work of a reverse proxy"},
    {"--api-prefix,--root-path", FOREIGN_ONE, REFUSED,
     "paths begin with /v1; a reverse proxy can add to that"},
    {"--uds", FOREIGN_ONE, REFUSED, "listening is on --host and --port"},
    {"--path,--media-path", FOREIGN_ONE, REFUSED, "no files are served"},
    {"--lora,--lora-scaled,--lora-modules,--control-vector,--control-vector-scaled", FOREIGN_ONE,
     REFUSED, "adapters are not read; merge them into the weights"},
    {"--enable-lora", FOREIGN_NONE, REFUSED, "adapters are not read; merge them into the weights"},
    {"--grammar,--grammar-file,--json-schema,-j,--json-schema-file,-jf", FOREIGN_ONE, REFUSED,
     "requests say response_format, regex or choice"},
    {"--logit-bias", FOREIGN_ONE, REFUSED, "requests say logit_bias"},
    {"--ignore-eos", FOREIGN_NONE, REFUSED, "requests say ignore_eos"},
    {"--hf-overrides,--override-kv,--rope-scaling,--rope-scale,--rope-freq-base,"
     "--rope-freq-scale,--rope-theta,--yarn-orig-ctx,--yarn-ext-factor",
     FOREIGN_ONE, REFUSED, "config.json says it"},
    {"--embedding,--embeddings,--reranking,--rerank", FOREIGN_NONE, REFUSED,
     "osprey answers chats; it makes no embeddings"},
    {"--mmproj,-mm,--mmproj-url", FOREIGN_ONE, REFUSED, "pictures and sound are not read"},
    {"--rpc,--kv-transfer-config", FOREIGN_ONE, REFUSED,
     "osprey runs in one process on one device"},
    {0},
};

const struct foreign_option *foreign_list(void)
{
    return FOREIGN;
}

static const struct foreign_option *find(const char *word, bool negated)
{
    for (const struct foreign_option *option = FOREIGN; option->words; option++)
        if (str_in_list(option->words, word) &&
            (!negated || (option->value == FOREIGN_NONE && !option->only)))
            return option;
    return NULL;
}

const struct foreign_option *foreign_find(const char *word)
{
    const struct foreign_option *option;
    char base[64];

    /* "--NAME." is for keys whose NAME is an option of osprey's own */
    snprintf(base, sizeof base, "%.*s", (int)(strcspn(word, ".") + (strchr(word, '.') != NULL)),
             word);
    option = find(base, false);
    if (option)
        return option;
    base[strcspn(base, ".")] = '\0';
    option = find(base, false);
    if (option || strncmp(base, "--no-", 5) != 0)
        return option;
    memmove(base + 2, base + 5, strlen(base + 5) + 1);
    return find(base, true);
}

/* Numbers are compared as numbers: 1.0 is 1. */
static bool is_same(const char *only, const char *value)
{
    char *end_only, *end;
    double a = strtod(only, &end_only), b = strtod(value, &end);

    if (end_only == only || *end_only || end == value || *end)
        return strcmp(only, value) == 0;
    return a == b;
}

enum osp_status foreign_ignore(const struct foreign_option *option, const char *word,
                               const char *value)
{
    if (option->only && !option->only[0])
        return fail(OSP_EUNSUPPORTED, "%s: not supported: %s", word, option->why);
    if (option->only && (!value || !is_same(option->only, value)))
        return fail(OSP_EUNSUPPORTED, "%s %s: only %s is supported (%s)", word, value ? value : "",
                    option->only, option->why);
    fprintf(stderr, "osprey: %s is ignored: %s\n", word, option->why);
    return OSP_OK;
}
