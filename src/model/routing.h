/* How many experts a few tokens reach together: what a step has to read. */
#ifndef MODEL_ROUTING_H
#define MODEL_ROUTING_H

#include "model/forward.h"

/* The mean number of distinct experts that n_tokens random tokens of one text choose in a layer,
 * over all layers and a few texts. The model must have space for the rows and their pages. */
CHECKED enum osp_status routing_measure(double *mean, struct model *m, int n_tokens);

/* The same if every choice of experts were as likely. */
double routing_uniform(const struct gptoss_config *c, int n_tokens);

#endif
