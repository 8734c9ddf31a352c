#include "cli/options/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define HARMONY    "the Harmony format of gpt-oss is built in"
#define FIXED      "osprey chooses this automatically"
#define ONE_DEVICE "osprey keeps all weights in the memory of the device"
#define GRAPHS     "osprey captures a CUDA graph when a step size is first used"
#define STORED     "osprey uses the weights as the checkpoint stores them"
#define MAPPED     "osprey always maps checkpoints into memory"
#define DIVIDED    "osprey divides a model by --tensor-parallel-size alone"
#define NEUTRAL    "osprey samples by temperature, top_p, top_k and min_p"
#define DOWNLOAD                                                                                   \
    "osprey downloads from Hugging Face only; use for example -hf ggml-org/gpt-oss-20b-GGUF"

#define REFUSED "" /* for `only`: no value may be ignored */

static const struct foreign_option FOREIGN[] = {
    {"--trust-remote-code", FOREIGN_NONE, NULL, "osprey never runs code from a checkpoint"},
    {"--jinja,--enable-auto-tool-choice,--prefill-assistant,--skip-chat-parsing", FOREIGN_NONE,
     NULL, HARMONY},
    {"--chat-template,--chat-template-file,--chat-template-content-format,--tool-call-parser,"
     "--reasoning-parser,--reasoning-format,--response-role",
     FOREIGN_ONE, NULL, HARMONY},
    {"--reasoning-budget", FOREIGN_ONE, NULL,
     "use reasoning_effort in requests, or serve's --reasoning-effort"},
    {"--tool-server", FOREIGN_ONE, NULL, "the client runs tools"},
    {"--n-gpu-layers,--gpu-layers,-ngl,--n-cpu-moe,-ncmoe,--override-tensor,-ot,--main-gpu,"
     "-mg,--split-mode,-sm,--tensor-split,-ts,-dev,--cpu-offload-gb",
     FOREIGN_ONE, NULL, ONE_DEVICE},
    {"--swap-space", FOREIGN_ONE, NULL,
     "the size of the KV cache determines the host memory for preempted requests"},
    {"--compilation-config,-cc,--max-cudagraph-capture-size,--cudagraph-capture-sizes,"
     "--cuda-graph-sizes,--max-seq-len-to-capture",
     FOREIGN_ONE, NULL, GRAPHS},
    {"-O0,-O1,-O2,-O3", FOREIGN_NONE, NULL, GRAPHS},
    {"--cpu-moe,-cmoe,--op-offload,--kv-offload,-nkvo,--enable-sleep-mode", FOREIGN_NONE, NULL,
     ONE_DEVICE},
    {"--fit,-fit", FOREIGN_MODE, NULL, ONE_DEVICE},
    {"--flash-attn,-fa", FOREIGN_MODE, NULL, FIXED},
    {"--async-scheduling", FOREIGN_NONE, NULL,
     "async scheduling is on by default; serve's --no-async-scheduling turns it off"},
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
    {"--stream-interval", FOREIGN_ONE, NULL, "every token is streamed immediately"},
    {"--scheduling-policy", FOREIGN_ONE, NULL,
     "scheduling is round-robin over API keys, then by priority, then round-robin over users, then "
     "by arrival"},
    {"--enable-prefix-caching,--cache-prompt,--cache-idle-slots", FOREIGN_NONE, NULL,
     "serve's prefix cache is on by default; --no-prefix-cache turns it off"},
    {"--prefix-caching-hash-algo,--cache-reuse,--cache-ram,-cram,--ctx-checkpoints,-ctxcp,"
     "--swa-checkpoints,--slot-prompt-similarity,-sps,--slot-save-path,--kv-offloading-size,"
     "--kv-offloading-backend",
     FOREIGN_ONE, NULL, "the prefix cache uses the free pages of the KV cache"},
    {"--context-shift", FOREIGN_NONE, NULL, "output ends at the maximum context length"},
    {"--keep", FOREIGN_ONE, NULL, "output ends at the maximum context length"},
    {"--draft-p-min,--gpu-layers-draft,-ngld,--ctx-size-draft,-cd", FOREIGN_ONE, NULL,
     "osprey verifies as many draft tokens as pay, and runs a draft head where the model runs"},
    {"--dtype,--quantization,--safetensors-load-strategy,--model-loader-extra-config,"
     "--max-parallel-loading-workers,--model-impl,--config-format,--tokenizer-mode",
     FOREIGN_ONE, NULL, STORED},
    {"--mmap,--mlock,--direct-io,-dio,--no-host", FOREIGN_NONE, NULL, MAPPED},
    {"--load-mode,-lm", FOREIGN_ONE, NULL, MAPPED},
    {"--check-tensors", FOREIGN_NONE, NULL, "use osprey validate to check a checkpoint"},
    {"--code-revision,--tokenizer-revision,--task,--runner,--convert", FOREIGN_ONE, NULL,
     "osprey uses the files in the checkpoint's folder"},
    {"--sleep-idle-seconds", FOREIGN_ONE, NULL, "osprey keeps the weights loaded"},
    {"--pipeline-parallel-size,-pp,--decode-context-parallel-size,-dcp", FOREIGN_ONE, NULL,
     DIVIDED},
    {"--ep-size,--ep,--pp-size", FOREIGN_ONE, "1", DIVIDED},
    {"--nnodes", FOREIGN_ONE, "1", "use serve's --hosts for ranks on several hosts"},
    {"--headless", FOREIGN_NONE, REFUSED,
     "it starts a worker of a server on several machines; osprey starts ranks by --hosts"},
    {"--enable-log-outputs,--enable-log-deltas", FOREIGN_NONE, NULL,
     "the log has no prompts and no outputs"},
    {"--enable-prompt-tokens-details", FOREIGN_NONE, NULL,
     "usage always has prompt_tokens_details"},
    {"--enable-request-id-headers", FOREIGN_NONE, NULL, "every answer has X-Request-Id"},
    {"--otlp-traces-endpoint,--collect-detailed-traces", FOREIGN_ONE, NULL,
     "osprey sends no traces; /metrics and the log have the times of requests"},
    {"--data-parallel-size-local,--data-parallel-backend", FOREIGN_ONE, NULL,
     "the replicas of --data-parallel-size are processes of this host"},
    {"--all2all-backend", FOREIGN_ONE, NULL, DIVIDED},
    {"--enable-expert-parallel,--disable-custom-all-reduce,--enable-eplb,--enable-dbo",
     FOREIGN_NONE, NULL, DIVIDED},
    {"--disable-log-requests,--enable-log-requests,--disable-log-stats,"
     "--disable-uvicorn-access-log,--disable-fastapi-docs,--disable-frontend-multiprocessing,"
     "--webui,--ui,--perf",
     FOREIGN_NONE, NULL, "osprey has no such switch"},
    {"--log-disable,--verbose,--log-verbose,-v,--log-prefix,--log-timestamps", FOREIGN_NONE, NULL,
     "use --log-level"},
    {"--uvicorn-log-level,--verbosity,--log-verbosity,-lv,--log-config-file,--log-config,"
     "--max-log-len",
     FOREIGN_ONE, NULL, "use --log-level"},
    {"--log-colors", FOREIGN_MODE, NULL, "use --log-level"},
    {"--log-file", FOREIGN_ONE, NULL, "the log goes to standard error"},
    {"--metrics", FOREIGN_NONE, NULL, "/metrics is always served"},
    {"--props,--slots", FOREIGN_NONE, NULL, "osprey serve --help lists all endpoints"},
    {"--mmproj-auto,--mmproj-offload,--no-mmproj,--language-model-only", FOREIGN_NONE, NULL,
     "osprey supports text only"},
    {"--limit-mm-per-prompt,--mm-processor-cache-gb", FOREIGN_ONE, NULL,
     "osprey supports text only"},
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
    {"--max-logprobs,--logprobs-mode", FOREIGN_ONE, NULL,
     "a request can ask for up to 20 logprobs"},
    {"--guided-decoding-backend,--structured-outputs-config", FOREIGN_ONE, NULL,
     "osprey has its own grammar compiler"},
    {"--enable-force-include-usage", FOREIGN_NONE, NULL,
     "use stream_options.include_usage in requests"},
    {"--allowed-methods,--allowed-headers,--cors-methods,--cors-headers", FOREIGN_ONE, NULL,
     "osprey sends the CORS headers that an allowed origin needs"},
    {"--allow-credentials,--cors-credentials", FOREIGN_NONE, NULL,
     "osprey sends the CORS headers that an allowed origin needs"},
    {"--model-url,-mu,--docker-repo,-dr", FOREIGN_ONE, REFUSED, DOWNLOAD},
    {"--gpt-oss-20b-default,--gpt-oss-120b-default", FOREIGN_NONE, REFUSED, DOWNLOAD},
    {"--models-preset", FOREIGN_ONE, REFUSED,
     "set each option on the command line, in a --config file or as environment variable "
     "OSPREY_NAME"},
    {"--models-dir,--models-max", FOREIGN_ONE, REFUSED,
     "a server has one model; start one server for each model"},
    {"--hf-repo-draft,-hfd,--spec-type,--speculative-config.,--speculative-algorithm", FOREIGN_ONE,
     REFUSED,
     "use --model-draft FOLDER for an Eagle3 draft head, or --speculative-config '{\"method\": "
     "\"ngram\"}', which needs none"},
    {"--ssl-ca-certs,--ssl-cert-reqs", FOREIGN_ONE, REFUSED,
     "osprey does not check certificates of clients; use --api-key, or a reverse proxy that checks "
     "them"},
    {"--ssl-ciphers", FOREIGN_ONE, REFUSED,
     "osprey offers the ciphers of TLS 1.3, and of TLS 1.2 those with forward secrecy and "
     "authenticated encryption"},
    {"--enable-ssl-refresh", FOREIGN_NONE, NULL,
     "osprey reads the certificate again whenever its files change"},
    {"--api-prefix,--root-path", FOREIGN_ONE, REFUSED,
     "paths begin with /v1; use a reverse proxy to add a prefix"},
    {"--uds", FOREIGN_ONE, REFUSED, "use --host and --port"},
    {"--path,--media-path", FOREIGN_ONE, REFUSED, "osprey does not serve files"},
    {"--lora,--lora-scaled,--lora-modules,--control-vector,--control-vector-scaled", FOREIGN_ONE,
     REFUSED, "osprey does not support adapters; merge them into the weights"},
    {"--enable-lora", FOREIGN_NONE, REFUSED,
     "osprey does not support adapters; merge them into the weights"},
    {"--grammar,--grammar-file,--json-schema,-j,--json-schema-file,-jf", FOREIGN_ONE, REFUSED,
     "use response_format, regex or choice in requests"},
    {"--logit-bias", FOREIGN_ONE, REFUSED, "use logit_bias in requests"},
    {"--ignore-eos", FOREIGN_NONE, REFUSED, "use ignore_eos in requests"},
    {"--hf-overrides,--override-kv,--rope-scaling,--rope-scale,--rope-freq-base,"
     "--rope-freq-scale,--rope-theta,--yarn-orig-ctx,--yarn-ext-factor",
     FOREIGN_ONE, REFUSED, "osprey reads this from config.json"},
    {"--embedding,--embeddings,--reranking,--rerank", FOREIGN_NONE, REFUSED,
     "osprey generates text; it has no embedding or reranking models"},
    {"--mmproj,-mm,--mmproj-url", FOREIGN_ONE, REFUSED,
     "osprey supports text only, no images and audio"},
    {"--rpc", FOREIGN_ONE, REFUSED,
     "use serve's --tensor-parallel-size with --hosts for several hosts"},
    {"--kv-transfer-config", FOREIGN_ONE, REFUSED,
     "osprey computes a prompt and its answer on the same device"},
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

    /* "--NAME." stands for the keys of a NAME that is an option of osprey */
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

/* Compares numbers by value: 1.0 equals 1. */
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
        return fail(OSP_EUNSUPPORTED, "%s is not supported: %s", word, option->why);
    if (option->only && (!value || !is_same(option->only, value)))
        return fail(OSP_EUNSUPPORTED, "%s %s: only the value %s is supported (%s)", word,
                    value ? value : "", option->only, option->why);
    fprintf(stderr, "osprey: %s is ignored: %s\n", word, option->why);
    return OSP_OK;
}
