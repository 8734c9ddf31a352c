/* Reads cpu/cpuN/topology/thread_siblings_list and node/nodeN/cpulist. */
#include "base/topology.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

enum { LIST_BYTES_MAX = 64 * 1024 }; /* a list of all CPUs */

static const char *system_folder = "/sys/devices/system";

void topology_set_folder(const char *folder)
{
    system_folder = folder ? folder : "/sys/devices/system";
}

/* ---- lists ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t';
}

/* A number of at most five digits; NULL: no such number. */
static const char *read_number(const char *at, int *out)
{
    int n_digits = 0;

    for (*out = 0; *at >= '0' && *at <= '9' && n_digits < 6; n_digits++)
        *out = *out * 10 + (*at++ - '0');
    return n_digits > 0 && n_digits < 6 ? at : NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int sorted_once(int *ids, int n)
{
    int n_unique = 0;

    qsort(ids, (size_t)n, sizeof *ids, compare_ids);
    for (int i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[n_unique++] = ids[i];
    return n_unique;
}

int cpu_list_parse(int *out, int n_max, const char *text)
{
    int n = 0;

    while (*text && !is_blank(*text)) {
        int first, last;

        text = read_number(text, &first);
        last = first;
        if (text && *text == '-')
            text = read_number(text + 1, &last);
        if (!text || last < first || last >= TOPOLOGY_CPUS_MAX || last - first >= n_max - n)
            return -1;
        while (first <= last)
            out[n++] = first++;
        if (*text == ',' && text[1])
            text++;
        else if (*text && !is_blank(*text))
            return -1;
    }
    while (is_blank(*text))
        text++;
    return *text ? -1 : sorted_once(out, n);
}

/* Reads a file with one list, by its path below the system folder; -1 if there is no such file. */
static int read_list(int *out, int n_max, const char *path)
{
    char *whole = path_join(system_folder, path), *text;
    size_t n_bytes;
    int n = -1;

    if (file_read(&text, &n_bytes, whole, LIST_BYTES_MAX) == OSP_OK) {
        n = cpu_list_parse(out, n_max, text);
        free(text);
    }
    free(whole);
    return n;
}

/* ---- cores and nodes ---- */

/* The first thread of a core identifies it. */
static int core_of(int cpu, int *scratch)
{
    char *path = mem_printf("cpu/cpu%d/topology/thread_siblings_list", cpu);
    int n = read_list(scratch, TOPOLOGY_CPUS_MAX, path);

    free(path);
    return n > 0 ? scratch[0] : cpu;
}

static void use_node(struct topology *t, int node, int *scratch)
{
    char *path = mem_printf("node/node%d/cpulist", node);
    int n = read_list(scratch, TOPOLOGY_CPUS_MAX, path);

    free(path);
    for (int i = 0; n > 0 && i < t->n_cpus; i++)
        if (bsearch(&t->cpus[i].id, scratch, (size_t)n, sizeof *scratch, compare_ids))
            t->cpus[i].node_id = node;
}

static void use_nodes(struct topology *t, int *scratch)
{
    int nodes[TOPOLOGY_NODES_MAX];
    int n = read_list(nodes, TOPOLOGY_NODES_MAX, "node/online");

    for (int i = 0; i < n; i++)
        if (nodes[i] < TOPOLOGY_NODES_MAX)
            use_node(t, nodes[i], scratch);
}

static int compare_cpus(const void *left, const void *right)
{
    const struct topology_cpu *a = left, *b = right;

    if (a->node_id != b->node_id)
        return a->node_id - b->node_id;
    return a->core != b->core ? a->core - b->core : a->id - b->id;
}

/* Maps the kernel's numbers to numbers without gaps. */
static void number(struct topology *t)
{
    int last_core = -1;

    qsort(t->cpus, (size_t)t->n_cpus, sizeof *t->cpus, compare_cpus);
    for (int i = 0; i < t->n_cpus; i++) {
        struct topology_cpu *c = &t->cpus[i];
        const bool is_new_core = c->core != last_core;

        if (i == 0 || c->node_id != c[-1].node_id)
            t->n_nodes++;
        if (is_new_core)
            t->n_cores++;
        last_core = c->core;
        c->node = t->n_nodes - 1;
        c->core = t->n_cores - 1;
        c->sibling = is_new_core ? 0 : c[-1].sibling + 1;
    }
}

void topology_read(struct topology *out, const int *allowed, int n)
{
    int *scratch = mem_new(TOPOLOGY_CPUS_MAX * sizeof *scratch);

    *out = (struct topology){.n_cpus = n};
    out->cpus = mem_new((size_t)n * sizeof *out->cpus);
    for (int i = 0; i < n; i++)
        out->cpus[i] =
            (struct topology_cpu){.id = allowed[i], .core = core_of(allowed[i], scratch)};
    use_nodes(out, scratch);
    number(out);
    free(scratch);
}

void topology_release(struct topology *t)
{
    free(t->cpus);
    *t = (struct topology){.cpus = NULL};
}

/* ---- choosing CPUs ---- */

struct thread_slot {
    int sibling, round, node; /* round: how many threads of the same rank precede it on its node */
    int index;
};

static int compare_slots(const void *left, const void *right)
{
    const struct thread_slot *a = left, *b = right;

    if (a->sibling != b->sibling)
        return a->sibling - b->sibling;
    return a->round != b->round ? a->round - b->round : a->node - b->node;
}

/* All CPUs in the order in which they are assigned. */
static struct thread_slot *list_slots(const struct topology *t)
{
    struct thread_slot *slots = mem_new((size_t)t->n_cpus * sizeof *slots);

    for (int i = 0; i < t->n_cpus; i++) {
        slots[i] = (struct thread_slot){
            .sibling = t->cpus[i].sibling, .node = t->cpus[i].node, .index = i};
        for (int j = 0; j < i; j++)
            slots[i].round +=
                slots[j].sibling == slots[i].sibling && slots[j].node == slots[i].node;
    }
    qsort(slots, (size_t)t->n_cpus, sizeof *slots, compare_slots);
    return slots;
}

void topology_choose(const struct topology *t, int n_threads, int *out)
{
    struct thread_slot *slots = list_slots(t);

    for (int i = 0; i < n_threads; i++)
        out[i] = slots[i % t->n_cpus].index;
    qsort(out, (size_t)n_threads, sizeof *out, compare_ids);
    free(slots);
}
