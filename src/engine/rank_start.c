#include "engine/rank_start.h"

#include <string.h>

#include "base/buf.h"
#include "base/pool.h"
#include "engine/worker/rank_model.h"
#include "engine/worker/rank_process.h"

enum { MODEL_BYTES_MAX = 1 << 20 }; /* of options: paths and strings */

enum shard_rule ranks_shard_rule(const struct osp_model_options *opt)
{
    const struct backend_ops *ops = backend_find(opt->device);

    return ops == NULL ? SHARD_FOR_CPU : ops->shard_rule;
}

int ranks_on_this_host(const struct osp_model_options *opt)
{
    int n_hosts = 1;

    if (opt->rank_address != NULL && opt->local_ranks > 0)
        return opt->local_ranks;
    for (const char *c = opt->rank_hosts; c != NULL && *c != '\0'; c++)
        n_hosts += *c == ',';
    return ranks_wanted(opt) / n_hosts > 0 ? ranks_wanted(opt) / n_hosts : 1;
}

int ranks_threads(const struct osp_model_options *opt, int n_local)
{
    const int n_each = pool_usable_cpus() / n_local;

    if (opt->n_threads > 0 || ranks_wanted(opt) == 1)
        return opt->n_threads;
    return n_each > 0 ? n_each : 1;
}

static enum osp_status send_model(struct osp_model *m, const struct osp_model_options *opt,
                                  uint64_t fingerprint)
{
    const struct model_part part = {.text = m->text, .plan = m->plan, .fingerprint = fingerprint};
    struct buf b;
    enum osp_status st;

    buf_init(&b, MODEL_BYTES_MAX);
    TRY(rank_model_write(&b, opt, &part));
    TRY(rank_leader_send_model(m->ranks, buf_text(&b), b.size_bytes));
out:
    buf_release(&b);
    return st;
}

enum osp_status ranks_start(struct osp_model *m, const struct osp_model_options *opt,
                            uint64_t fingerprint)
{
    const struct rank_leader_options options = {.n_ranks = ranks_wanted(opt),
                                                .hosts = opt->rank_hosts,
                                                .address = opt->rank_address,
                                                .argument = RANK_ARGUMENT,
                                                .replica = opt->data_parallel_rank};
    enum osp_status st;

    TRY(rank_leader_open(&m->ranks, &options));
    TRY(send_model(m, opt, fingerprint));
out:
    return st;
}
