/* The options for sampling: of osprey chat, and the defaults of osprey serve for requests that do
 * not set them. */
#ifndef CLI_OPTIONS_SAMPLING_ARGS_H
#define CLI_OPTIONS_SAMPLING_ARGS_H

#include "cli/options/options.h"
#include "osprey.h"

struct sampling_args {
    struct option_float temperature, top_p, min_p, seed;
    int top_k, tokens_max;
};

/* `seed_also`: further names of --seed. `whose` ends each help text: "" or "; default for requests
 * that do not set it". */
#define SAMPLING_ROWS(T, m, seed_also, whose)                                                      \
    FLOAT_ROW(T, m.temperature, "temperature", "--temp", 0, 2, "T",                                \
              "sampling temperature; 0 is greedy decoding (default 1, 0 for the bundled "          \
              "model)" whose),                                                                     \
        FLOAT_ROW(T, m.top_p, "top-p", NULL, 0, 1, "P",                                            \
                  "nucleus sampling: sample from the most likely tokens whose probabilities "      \
                  "add up to P (default off)" whose),                                              \
        LIMIT_ROW(T, m.top_k, "top-k", NULL, 1 << 20, "K",                                         \
                  "sample from the K most likely tokens (default off)" whose),                     \
        FLOAT_ROW(T, m.min_p, "min-p", NULL, 0, 1, "P",                                            \
                  "sample from tokens that are at least P times as likely as the most likely "     \
                  "one (default off)" whose),                                                      \
        FLOAT_ROW(T, m.seed, "seed", seed_also, -1, 9007199254740992.0, "N",                       \
                  "seed of the random numbers: the same seed gives the same output; -1: a new "    \
                  "seed for each request (default -1)" whose),                                     \
        LIMIT_ROW(T, m.tokens_max, "max-tokens", "-n,--predict,--n-predict", 1 << 24, "N",         \
                  "maximum number of output tokens, reasoning included (default: up to the "       \
                  "maximum context length)" whose)

/* tokens_max and sampling from the options; every other member is zero. */
struct osp_request_options sampling_args_request(const struct sampling_args *args);

#endif
