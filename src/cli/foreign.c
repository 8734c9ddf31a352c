#include "cli/foreign.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

#define HARMONY  "gpt-oss's Harmony format is built in"
#define FIXED    "osprey chooses this itself"
#define CPU_ONLY "the model runs on the CPU"
#define STORED   "weights are used as they are stored"
#define MAPPED   "checkpoints are always mapped"
#define ONE      "osprey runs in one process on one device"

static const struct foreign_option FOREIGN[] = {
    {"--trust-remote-code", FOREIGN_NONE, NULL, "no code of a checkpoint is ever run"},
    {"--jinja,--no-jinja", FOREIGN_NONE, NULL, HARMONY},
    {"--chat-template,--chat-template-file,--chat-template-kwargs", FOREIGN_ONE, NULL, HARMONY},
    {"--enable-auto-tool-choice", FOREIGN_NONE, NULL, HARMONY},
    {"--tool-call-parser,--reasoning-parser,--reasoning-format", FOREIGN_ONE, NULL, HARMONY},
    {"--n-gpu-layers,--gpu-layers,-ngl", FOREIGN_ONE, NULL, CPU_ONLY},
    {"--cpu-moe", FOREIGN_NONE, NULL, CPU_ONLY},
    {"--n-cpu-moe,-ncmoe,--main-gpu,-mg,--split-mode,-sm", FOREIGN_ONE, NULL, CPU_ONLY},
    {"--gpu-memory-utilization,--swap-space,--cpu-offload-gb", FOREIGN_ONE, NULL, CPU_ONLY},
    {"--flash-attn,-fa", FOREIGN_MODE, NULL, FIXED},
    {"--enforce-eager,--async-scheduling,--enable-chunked-prefill", FOREIGN_NONE, NULL, FIXED},
    {"--cont-batching,-cb,--kv-unified,-kvu", FOREIGN_NONE, NULL, FIXED},
    {"--ubatch-size,-ub,--block-size,--threads-batch,-tb,--threads-http", FOREIGN_ONE, NULL, FIXED},
    {"--attention-backend,--mxfp4-backend,--distributed-executor-backend", FOREIGN_ONE, NULL,
     FIXED},
    {"--scheduling-policy", FOREIGN_ONE, "fcfs", "requests are served in the order they come"},
    {"--stream-interval", FOREIGN_ONE, "1", "every token is sent as it comes"},
    {"--no-enable-prefix-caching", FOREIGN_NONE, NULL, "prompts are not shared between requests"},
    {"--dtype,--quantization", FOREIGN_ONE, NULL, STORED},
    {"--safetensors-load-strategy", FOREIGN_ONE, NULL, STORED},
    {"--mmap,--no-mmap,--mlock", FOREIGN_NONE, NULL, MAPPED},
    {"--tensor-parallel-size,-tp,--pipeline-parallel-size,-pp", FOREIGN_ONE, "1", ONE},
    {"--data-parallel-size,-dp,--nnodes", FOREIGN_ONE, "1", ONE},
    {"--disable-log-requests,--disable-log-stats,--no-webui", FOREIGN_NONE, NULL,
     "there is nothing to switch off"},
    {"--log-disable", FOREIGN_NONE, NULL, "use --log-level error"},
    {"--uvicorn-log-level", FOREIGN_ONE, NULL, "use --log-level"},
    {"--generation-config", FOREIGN_ONE, NULL, "use --temperature"},
    {"--offline", FOREIGN_NONE, NULL, "osprey never uses the network for models"},
};

const struct foreign_option *foreign_find(const char *word)
{
    for (size_t i = 0; i < sizeof FOREIGN / sizeof FOREIGN[0]; i++)
        if (str_in_list(FOREIGN[i].words, word))
            return &FOREIGN[i];
    return NULL;
}

enum osp_status foreign_ignore(const struct foreign_option *option, const char *word,
                               const char *value)
{
    if (option->only && (!value || strcmp(value, option->only) != 0))
        return fail(OSP_EUNSUPPORTED, "%s %s: only %s is supported (%s)", word, value ? value : "",
                    option->only, option->why);
    fprintf(stderr, "osprey: %s is ignored: %s\n", word, option->why);
    return OSP_OK;
}
