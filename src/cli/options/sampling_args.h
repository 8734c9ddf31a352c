/* The options that say how tokens are drawn: of an answer (osprey chat), or of answers whose
 * request does not say (osprey serve). */
#ifndef CLI_OPTIONS_SAMPLING_ARGS_H
#define CLI_OPTIONS_SAMPLING_ARGS_H

#include "cli/options/options.h"
#include "osprey.h"

struct sampling_args {
    struct option_float temperature, top_p, min_p, seed;
    int top_k, tokens_max;
};

/* `seed_also`: further names of --seed. `whose` ends each help text: "" or ", for requests that
 * do not say". */
#define SAMPLING_ROWS(T, m, seed_also, whose)                                                      \
    FLOAT_ROW(T, m.temperature, "temperature", "--temp", 0, 2, "T",                                \
              "0 takes the likeliest token (default 1, and 0 for the bundled model)" whose),       \
        FLOAT_ROW(T, m.top_p, "top-p", NULL, 0, 1, "P",                                            \
                  "only the likeliest tokens that make up this probability (default off)" whose),  \
        LIMIT_ROW(T, m.top_k, "top-k", NULL, 1 << 20, "K",                                         \
                  "only the K likeliest tokens (default off)" whose),                              \
        FLOAT_ROW(T, m.min_p, "min-p", NULL, 0, 1, "P",                                            \
                  "only tokens at least P times as likely as the likeliest (default off)" whose),  \
        FLOAT_ROW(T, m.seed, "seed", seed_also, -1, 9007199254740992.0, "N",                       \
                  "the same seed gives the same answer; -1 is none" whose),                        \
        LIMIT_ROW(T, m.tokens_max, "max-tokens", "-n,--predict,--n-predict", 1 << 24, "N",         \
                  "of an answer, reasoning included (default: to the context's end)" whose)

/* tokens_max and sampling as the options say; all else is zero. */
struct osp_request_options sampling_args_request(const struct sampling_args *args);

#endif
