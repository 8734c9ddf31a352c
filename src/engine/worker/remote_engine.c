/* An engine that runs in the worker process: its operations are the remote's. */
#include "engine/core/engine.h"
#include "engine/worker/remote.h"

static enum osp_status open_remote(struct osp_engine *e)
{
    return remote_engine_open(e->model->remote, &e->options);
}

/* It runs once it is open. */
static enum osp_status start_remote(struct osp_engine *e)
{
    (void)e;
    return OSP_OK;
}

static void close_remote(struct osp_engine *e)
{
    remote_engine_close(e->model->remote);
}

/* Nothing of it is in this process. */
static void release_remote(struct osp_engine *e)
{
    (void)e;
}

static enum osp_status submit_remote(struct osp_engine *e, struct osp_request *r,
                                     const struct osp_request_options *opt)
{
    return remote_submit(e->model->remote, r, opt);
}

static void get_stats(struct osp_engine *e, struct osp_engine_stats *out)
{
    remote_get_stats(e->model->remote, out);
}

static void get_metrics(struct osp_engine *e, struct osp_engine_metrics *out)
{
    remote_get_metrics(e->model->remote, out);
}

static void get_health(struct osp_engine *e, struct osp_engine_health *out)
{
    remote_get_health(e->model->remote, out);
}

const struct engine_ops remote_engine_ops = {
    .open = open_remote,
    .start = start_remote,
    .close = close_remote,
    .release = release_remote,
    .submit = submit_remote,
    .get_stats = get_stats,
    .get_metrics = get_metrics,
    .get_health = get_health,
};
