/* The engine: one thread that owns the device and advances all requests together, one batch a step.
 * Clients reach it through its inbox and hear it through their requests' outboxes. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "engine/model_api.h"
#include "engine/request.h"

const struct osp_model *engine_model(const struct osp_engine *e);
const struct sched_limits *engine_limits(const struct osp_engine *e);

/* Hands r to the engine's thread, which takes a reference of its own. From any thread. OSP_EBUSY:
 * the queue is full. OSP_EUNAVAILABLE: the engine is closing or its device has failed. */
CHECKED enum osp_status engine_submit(struct osp_engine *e, struct osp_request *r);

#endif
