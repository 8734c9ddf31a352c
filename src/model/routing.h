/* Measures how many distinct experts a few tokens select together, which is what a step reads. */
#ifndef MODEL_ROUTING_H
#define MODEL_ROUTING_H

#include "model/forward.h"

/* The mean number of distinct experts in a layer that n_tokens random tokens of one text select,
 * over all layers and a few texts. The model must have space for the rows and their pages. */
CHECKED enum osp_status routing_measure(double *mean, struct model *m, int n_tokens);

/* The expected value if all experts were equally likely. */
double routing_uniform(const struct gptoss_config *c, int n_tokens);

#endif
