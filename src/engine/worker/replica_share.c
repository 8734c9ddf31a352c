#include "engine/worker/replica_share.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/buf.h"
#include "base/cpus.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/topology.h"
#include "engine/core/model_api.h"

enum { CPU_LIST_BYTES_MAX = 64 << 10 };

#define VISIBLE "CUDA_VISIBLE_DEVICES"

static bool is_on_cpu(const struct osp_model_options *opt)
{
    const struct backend_ops *ops = backend_find(opt->device);

    return ops == NULL || strcmp(ops->name, "cpu") == 0;
}

/* ---- GPUs ---- */

static bool is_gpu_file(const char *name)
{
    const char *number = name + strlen("nvidia");

    return strncmp(name, "nvidia", strlen("nvidia")) == 0 && *number != '\0' &&
           strspn(number, "0123456789") == strlen(number);
}

static int count_gpu_files(void)
{
    DIR *folder = opendir("/dev");
    const struct dirent *e;
    int n = 0;

    while (folder != NULL && (e = readdir(folder)) != NULL)
        n += is_gpu_file(e->d_name);
    if (folder != NULL)
        closedir(folder);
    return n;
}

int visible_gpus(void)
{
    const char *at = getenv(VISIBLE);
    int n = 0;

    if (at == NULL) {
        n = count_gpu_files();
        return n > 0 ? n : -1;
    }
    for (; *at != '\0'; at++)
        n += (n == 0) + (*at == ',');
    return n;
}

/* Entry i of the list that is visible here; without a list, the GPU's number. */
static void put_gpu(struct buf *out, int i)
{
    const char *at = getenv(VISIBLE);

    if (at == NULL) {
        buf_printf(out, "%d", i);
        return;
    }
    for (; i > 0 && *at != '\0'; at++)
        i -= *at == ',';
    buf_printf(out, "%.*s", (int)strcspn(at, ","), at);
}

enum osp_status replica_share_gpus(struct replica_share *out, int i, int n_each)
{
    struct buf b;
    enum osp_status st = OSP_OK;

    buf_init(&b, sizeof out->visible - 1);
    buf_puts(&b, VISIBLE "=");
    for (int k = 0; k < n_each; k++) {
        buf_puts(&b, k > 0 ? "," : "");
        put_gpu(&b, i * n_each + k);
    }
    if (b.overflow)
        st = fail(OSP_ELIMIT, VISIBLE " has more than %zu bytes", sizeof out->visible);
    else
        memcpy(out->visible, buf_text(&b), b.size_bytes + 1);
    buf_release(&b);
    out->variables[0] = out->visible;
    return st;
}

/* ---- CPUs ---- */

/* Whole cores where there are enough of them, so that replicas do not compete within a core. */
static bool is_cpu_of(const struct topology *t, int cpu, int i, int n)
{
    const int n_units = t->n_cores >= n ? t->n_cores : t->n_cpus;
    const int unit = t->n_cores >= n ? t->cpus[cpu].core : cpu;

    return unit >= (int)((int64_t)i * n_units / n) && unit < (int)((int64_t)(i + 1) * n_units / n);
}

/* Neighbouring cores, which are on one memory node if possible. NULL: there are fewer CPUs than
 * replicas. */
static char *cpus_of(int i, int n)
{
    struct topology t;
    struct buf b;
    char *list = NULL;
    int *allowed;
    const int n_allowed = cpus_allowed(&allowed);

    if (n_allowed >= n) {
        topology_read(&t, allowed, n_allowed);
        buf_init(&b, CPU_LIST_BYTES_MAX);
        for (int cpu = 0; cpu < t.n_cpus; cpu++)
            if (is_cpu_of(&t, cpu, i, n))
                buf_printf(&b, "%s%d", b.size_bytes > 0 ? "," : "", t.cpus[cpu].id);
        list = b.overflow ? NULL : buf_take(&b);
        buf_release(&b);
        topology_release(&t);
    }
    free(allowed);
    return list;
}

static void share_cpus(struct replica_share *out, const struct osp_model_options *opt, int i, int n)
{
    const int n_each = pool_usable_cpus() / (n * ranks_wanted(opt));

    if (opt->cpu_affinity == NULL || strcmp(opt->cpu_affinity, "auto") == 0)
        out->cpus = cpus_of(i, n);
    if (opt->n_threads == 0)
        out->n_threads = n_each > 0 ? n_each : 1;
}

/* ---- both ---- */

enum osp_status replica_share_init(struct replica_share *out, const struct osp_model_options *opt,
                                   int i, int n)
{
    memset(out, 0, sizeof *out);
    if (!is_on_cpu(opt))
        return replica_share_gpus(out, i, ranks_wanted(opt));
    share_cpus(out, opt, i, n);
    return OSP_OK;
}

void replica_share_release(struct replica_share *share)
{
    free(share->cpus);
    memset(share, 0, sizeof *share);
}
