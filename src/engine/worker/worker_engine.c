/* An engine that runs in the worker process: its operations are the worker client's. */
#include "engine/core/engine.h"
#include "engine/worker/worker_client.h"

static enum osp_status open_worker_engine(struct osp_engine *e)
{
    return worker_client_engine_open(e->model->worker_client, &e->options);
}

/* It runs once it is open. */
static enum osp_status start_worker_engine(struct osp_engine *e)
{
    (void)e;
    return OSP_OK;
}

static void close_worker_engine(struct osp_engine *e)
{
    worker_client_engine_close(e->model->worker_client);
}

/* This process holds nothing of it. */
static void release_worker_engine(struct osp_engine *e)
{
    (void)e;
}

static enum osp_status submit_to_worker(struct osp_engine *e, struct osp_request *r,
                                        const struct osp_request_options *opt)
{
    return worker_client_submit(e->model->worker_client, r, opt);
}

static void get_stats(struct osp_engine *e, struct osp_engine_stats *out)
{
    worker_client_get_stats(e->model->worker_client, out);
}

static void get_metrics(struct osp_engine *e, struct osp_engine_metrics *out)
{
    worker_client_get_metrics(e->model->worker_client, out);
}

static void get_health(struct osp_engine *e, struct osp_engine_health *out)
{
    worker_client_get_health(e->model->worker_client, out);
}

const struct engine_ops worker_engine_ops = {
    .open = open_worker_engine,
    .start = start_worker_engine,
    .close = close_worker_engine,
    .release = release_worker_engine,
    .submit = submit_to_worker,
    .get_stats = get_stats,
    .get_metrics = get_metrics,
    .get_health = get_health,
};
