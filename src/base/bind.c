/* Chooses a set of CPUs for each thread from the affinity option, and binds threads to them. */
#include "base/bind.h"

#include <errno.h>
#include <sched.h>
#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/log.h"
#include "base/memory.h"

enum { SHOWN_CHARS = 80 }; /* of an invalid option value, as shown in a message */

/* ---- parsing the affinity option ---- */

static bool is_word(const char *how, const char *word)
{
    return strcmp(how, word) == 0;
}

static bool is_off(const char *how)
{
    return how == NULL || is_word(how, "off");
}

static bool is_list(const char *how)
{
    return how[0] >= '0' && how[0] <= '9';
}

static bool contains(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Replaces the allowed CPUs with the CPUs of the list. */
static enum osp_status parse_cpu_list(int **ids, int *n, const char *list)
{
    int *wanted;
    int n_wanted;
    enum osp_status st;

    TRY(mem_try_array(&wanted, TOPOLOGY_CPUS_MAX, sizeof *wanted, "list of CPUs"));
    n_wanted = cpu_list_parse(wanted, TOPOLOGY_CPUS_MAX, list);
    if (n_wanted < 1)
        st = fail(OSP_EINVAL, "CPU affinity \"%.*s\": expected a list such as 0-7,16", SHOWN_CHARS,
                  list);
    for (int i = 0; st == OSP_OK && i < n_wanted; i++)
        if (!contains(*ids, *n, wanted[i]))
            st = fail(OSP_EINVAL,
                      "CPU affinity %.*s: CPU %d is not one of the %d that this process may use",
                      SHOWN_CHARS, list, wanted[i], *n);
    if (st != OSP_OK) {
        free(wanted);
        return st;
    }
    free(*ids);
    *ids = wanted;
    *n = n_wanted;
out:
    return st;
}

static enum osp_status check_word(const char *how)
{
    if (is_off(how) || is_list(how) || is_word(how, "auto") || is_word(how, "nodes") ||
        is_word(how, "cores"))
        return OSP_OK;
    return fail(OSP_EINVAL,
                "CPU affinity \"%.*s\": expected auto, off, cores, nodes or a list such as 0-7,16",
                SHOWN_CHARS, how);
}

static enum bind_level level_of(const struct bind *b, const char *how)
{
    const struct topology *t = &b->topology;

    if (is_word(how, "cores"))
        return BIND_CORES;
    if (!is_word(how, "nodes") && b->n_threads >= t->n_cores && b->n_threads <= t->n_cpus)
        return BIND_CORES;
    if (is_word(how, "nodes") || t->n_nodes > 1)
        return BIND_NODES;
    return is_list(how) ? BIND_ALL : BIND_NONE;
}

static int count_nodes(const struct bind *b)
{
    int n = 1; /* the chosen CPUs are ordered by node */

    for (int i = 1; i < b->n_threads; i++)
        n += bind_node(b, i) != bind_node(b, i - 1);
    return n;
}

static enum osp_status plan(struct bind *b, const char *how)
{
    enum osp_status st;

    TRY(mem_try_array(&b->cpu_of, (size_t)b->n_threads, sizeof *b->cpu_of, "CPUs of the threads"));
    topology_choose(&b->topology, b->n_threads, b->cpu_of);
    b->level = level_of(b, how);
    b->n_nodes = b->level >= BIND_NODES ? count_nodes(b) : 1;
    if (b->level != BIND_NONE)
        log_debug("%d threads on %d CPUs, %d cores, %d nodes: bound to %s", b->n_threads,
                  b->topology.n_cpus, b->topology.n_cores, b->topology.n_nodes,
                  b->level == BIND_CORES   ? "cores"
                  : b->level == BIND_NODES ? "nodes"
                                           : "the list");
out:
    return st;
}

enum osp_status bind_open(struct bind *out, int n_threads, const char *how)
{
    int *ids = NULL;
    int n;
    enum osp_status st;

    *out = (struct bind){.n_nodes = 1};
    TRY(check_word(how));
    n = cpus_allowed(&ids);
    if (!is_off(how) && is_list(how))
        TRY(parse_cpu_list(&ids, &n, how));
    out->n_cpus = cpus_within_quota(n);
    out->n_threads = n_threads > 0 ? n_threads : out->n_cpus;
    if (!is_off(how)) {
        topology_read(&out->topology, ids, n);
        TRY(plan(out, how));
    }
out:
    free(ids);
    if (st != OSP_OK)
        bind_close(out);
    return st;
}

void bind_close(struct bind *b)
{
    free(b->cpu_of);
    topology_release(&b->topology);
    *b = (struct bind){.cpu_of = NULL};
}

int bind_node(const struct bind *b, int thread)
{
    return b->level >= BIND_NODES ? b->topology.cpus[b->cpu_of[thread]].node : 0;
}

/* ---- binding ---- */

static bool is_in_set(const struct bind *b, const struct topology_cpu *own,
                      const struct topology_cpu *other)
{
    if (b->level == BIND_CORES)
        return own->core == other->core;
    return b->level == BIND_ALL || own->node == other->node;
}

/* The ids may be in any order. */
static void bind_to(const int *ids, int n)
{
    int id_max = 0;
    cpu_set_t *set;
    size_t size_bytes;

    for (int i = 0; i < n; i++)
        id_max = ids[i] > id_max ? ids[i] : id_max;
    size_bytes = CPU_ALLOC_SIZE((size_t)id_max + 1);
    set = CPU_ALLOC((size_t)id_max + 1);
    if (!set)
        return;
    CPU_ZERO_S(size_bytes, set);
    for (int i = 0; i < n; i++)
        CPU_SET_S((size_t)ids[i], size_bytes, set);
    if (sched_setaffinity(0, size_bytes, set) != 0)
        log_debug("cannot bind a thread to %d CPUs: %s", n, strerror(errno));
    CPU_FREE(set);
}

void bind_this_thread(const struct bind *b, int thread)
{
    const struct topology *t = &b->topology;
    const struct topology_cpu *own;
    int *ids, n = 0;

    if (b->level == BIND_NONE)
        return;
    own = &t->cpus[b->cpu_of[thread]];
    ids = mem_new((size_t)t->n_cpus * sizeof *ids);
    for (int i = 0; i < t->n_cpus; i++)
        if (is_in_set(b, own, &t->cpus[i]))
            ids[n++] = t->cpus[i].id;
    bind_to(ids, n);
    free(ids);
}

void bind_interleave(const struct bind *b, void *data, size_t size_bytes)
{
    enum { WORD_BITS = 8 * sizeof(unsigned long) };
    unsigned long nodes[TOPOLOGY_NODES_MAX / WORD_BITS] = {0};
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)data;
    const uintptr_t begin = (at + page - 1) / page * page, end = (at + size_bytes) / page * page;

    if (b->n_nodes < 2 || begin >= end)
        return;
    for (int i = 0; i < b->n_threads; i++) {
        const int id = b->topology.cpus[b->cpu_of[i]].node_id;

        nodes[id / WORD_BITS] |= 1ul << id % WORD_BITS;
    }
    if (syscall(SYS_mbind, begin, end - begin, MPOL_INTERLEAVE, nodes, TOPOLOGY_NODES_MAX + 1ul,
                0) != 0)
        log_debug("cannot interleave memory over %d nodes: %s", b->n_nodes, strerror(errno));
}

void bind_save(struct bind_mask *out)
{
    out->is_saved = sched_getaffinity(0, sizeof out->words, (cpu_set_t *)out->words) == 0;
}

void bind_restore(struct bind_mask *mask)
{
    if (mask->is_saved)
        (void)sched_setaffinity(0, sizeof mask->words, (cpu_set_t *)mask->words);
    mask->is_saved = false;
}
