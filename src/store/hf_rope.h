/* The rotary part of a config. Private to store/. */
#ifndef STORE_HF_ROPE_H
#define STORE_HF_ROPE_H

#include "store/hf_config.h"
#include "store/json_read.h"

/* The rotary parameters of every gpt-oss model, which are Transformers' defaults for absent
 * keys. */
void hf_rope_default(struct gptoss_config *c);

/* Transformers 5 puts all fields into rope_parameters; 4.55 has rope_scaling and rope_theta.
 * Requires context_tokens_max. */
CHECKED enum osp_status hf_rope_read(struct gptoss_config *c, const struct json_object *o);

/* One positive number of the rotary fields. */
CHECKED enum osp_status hf_rope_number(double *out, const struct json_object *o, const char *key,
                                       double fallback);

#endif
