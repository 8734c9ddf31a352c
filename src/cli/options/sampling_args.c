#include "cli/options/sampling_args.h"

struct osp_request_options sampling_args_request(const struct sampling_args *args)
{
    const bool has_seed = args->seed.is_set && args->seed.value >= 0;

    return (struct osp_request_options){
        .tokens_max = args->tokens_max,
        .sampling = {.has_temperature = args->temperature.is_set,
                     .temperature = (float)args->temperature.value,
                     .top_p = (float)args->top_p.value,
                     .top_k = args->top_k,
                     .min_p = (float)args->min_p.value,
                     .has_seed = has_seed,
                     .seed = has_seed ? (uint64_t)args->seed.value : 0},
    };
}
