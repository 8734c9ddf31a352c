/* Builds a grammar and checks its invariants. */
#include "text/grammar/grammar_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/grammar/regex.h"

enum { NO_EDGE = -1, NO_PATH = GRAMMAR_DEPTH_MAX + 1 };

struct grammar *grammar_new(void)
{
    struct grammar *g = mem_new(sizeof *g);

    atomic_init(&g->n_refs, 1);
    return g;
}

struct grammar *grammar_ref(struct grammar *g)
{
    atomic_fetch_add(&g->n_refs, 1);
    return g;
}

void grammar_unref(struct grammar *g)
{
    if (g == NULL || atomic_fetch_sub(&g->n_refs, 1) > 1)
        return;
    for (size_t i = 0; i < g->n_terms; i++) {
        free(g->terms[i].bytes);
        free(g->terms[i].free_runs);
        if (g->terms[i].kind == TERM_DFA)
            dfa_free(g->terms[i].dfa);
    }
    free(g->terms);
    free(g->nodes);
    free(g->edges);
    free(g->ignored);
    free(g);
}

size_t grammar_bytes(const struct grammar *g)
{
    return sizeof *g + g->n_bytes + g->capacity_terms * sizeof *g->terms +
           g->capacity_nodes * sizeof *g->nodes + g->capacity_edges * sizeof *g->edges;
}

const char *grammar_ignored(const struct grammar *g)
{
    return g->ignored != NULL ? g->ignored : "";
}

int64_t grammar_work(const struct grammar *g)
{
    return g->work;
}

enum osp_status grammar_add_node(struct grammar *g, int32_t *grammar_node)
{
    enum osp_status st;

    if (g->n_nodes == GRAMMAR_NODES_MAX)
        return fail(OSP_ELIMIT, "the grammar has more than the limit of %d positions",
                    (int)GRAMMAR_NODES_MAX);
    TRY(mem_try_grow(&g->nodes, g->n_nodes, &g->capacity_nodes, sizeof *g->nodes, "a grammar"));
    *grammar_node = (int32_t)g->n_nodes++;
    g->nodes[*grammar_node] = (struct grammar_node){.first_edge = NO_EDGE, .height = NO_PATH};
out:
    return st;
}

enum osp_status grammar_add_edge(struct grammar *g, int32_t from, enum edge_kind kind,
                                 int32_t target, int32_t to)
{
    enum osp_status st;

    if (g->n_edges == GRAMMAR_EDGES_MAX)
        return fail(OSP_ELIMIT, "the grammar has more than the limit of %d edges",
                    (int)GRAMMAR_EDGES_MAX);
    TRY(mem_try_grow(&g->edges, g->n_edges, &g->capacity_edges, sizeof *g->edges, "a grammar"));
    g->edges[g->n_edges] = (struct edge){kind, target, to, g->nodes[from].first_edge, NO_PATH};
    g->nodes[from].first_edge = (int32_t)g->n_edges++;
out:
    return st;
}

/* ---- terminals ---- */

static enum osp_status add_term(struct grammar *g, struct term **out, size_t n_bytes, int32_t *term)
{
    enum osp_status st;

    g->n_bytes += n_bytes;
    if (g->n_bytes > GRAMMAR_BYTES_MAX)
        return fail(OSP_ELIMIT, "the grammar has more than the limit of %d bytes",
                    (int)GRAMMAR_BYTES_MAX);
    if (g->n_terms == GRAMMAR_TERMS_MAX)
        return fail(OSP_ELIMIT, "the grammar has more than the limit of %d terminals",
                    (int)GRAMMAR_TERMS_MAX);
    TRY(mem_try_grow(&g->terms, g->n_terms, &g->capacity_terms, sizeof *g->terms, "a grammar"));
    *term = (int32_t)g->n_terms++;
    *out = &g->terms[*term];
    **out = (struct term){.kind = TERM_LITERAL};
out:
    return st;
}

enum osp_status grammar_add_literal(struct grammar *g, const char *bytes, size_t n, int32_t *term)
{
    struct term *t = NULL;
    enum osp_status st;

    if (n == 0)
        return fail(OSP_EINVAL, "an empty text is not supported");
    TRY(add_term(g, &t, n, term));
    t->bytes = mem_strndup(bytes, n);
    t->n_bytes = (uint32_t)n;
out:
    return st;
}

enum osp_status grammar_add_dfa(struct grammar *g, struct dfa *dfa, bool in_runs,
                                struct budget *budget, int32_t *term)
{
    struct term *t = NULL;
    enum osp_status st;

    st = add_term(g, &t, (size_t)dfa->n_states * (2 * dfa->n_classes + 3), term);
    if (st != OSP_OK) {
        dfa_free(dfa);
        return st;
    }
    t->kind = TERM_DFA;
    t->dfa = dfa;
    return in_runs ? dfa_free_runs(&t->free_runs, dfa, budget) : OSP_OK;
}

enum osp_status grammar_add_string(struct grammar *g, uint32_t min_count, uint32_t max_count,
                                   int32_t *term)
{
    struct term *t = NULL;
    enum osp_status st;

    TRY(add_term(g, &t, 0, term));
    t->kind = TERM_STRING;
    t->min_count = min_count;
    t->max_count = max_count;
out:
    return st;
}

/* A string of RFC 8259; \u surrogates only as a pair. */
static const char string_regex[] =
    "\"(?:[^\"\\\\\\x00-\\x1f]|\\\\(?:[\"\\\\/bfnrt]|u(?:[0-9A-Ca-cE-Fe-f][0-9A-Fa-f]{3}|"
    "[Dd][0-7][0-9A-Fa-f]{2}|[Dd][89ABab][0-9A-Fa-f]{2}\\\\u[Dd][C-Fc-f][0-9A-Fa-f]{2})))*\"";

static struct json_strings all_strings;

static void make_all_strings(void)
{
    struct budget budget = {COMPILE_WORK_MAX};
    struct dfa *d;

    if (regex_compile(&d, string_regex, sizeof string_regex - 1, (struct regex_options){false},
                      &budget) != OSP_OK)
        abort(); /* out of memory: the expression is constant, so it cannot fail otherwise */
    all_strings.dfa = d;
    all_strings.before = d->start;
    all_strings.between = dfa_step(d, d->start, '"');
    all_strings.after = dfa_step(d, all_strings.between, '"');
}

const struct json_strings *json_strings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_all_strings);
    return &all_strings;
}

/* ---- invariants ---- */

/* Call depth that an edge needs: its own call and the path after it. */
static int32_t edge_height(const struct grammar *g, const struct edge *e)
{
    int32_t height = g->nodes[e->to].height;

    if (e->kind == EDGE_RULE && g->nodes[e->target].height + 1 > height)
        height = g->nodes[e->target].height + 1;
    return height < NO_PATH ? height : NO_PATH;
}

static bool lower_heights(struct grammar *g)
{
    bool changed = false;

    for (size_t p = g->n_nodes; p-- > 0;) {
        struct grammar_node *at = &g->nodes[p];
        int32_t height = at->is_end ? 0 : NO_PATH;

        for (int32_t e = at->first_edge; e >= 0; e = g->edges[e].next) {
            g->edges[e].height = edge_height(g, &g->edges[e]);
            if (g->edges[e].height < height)
                height = g->edges[e].height;
        }
        changed = changed || height < at->height;
        at->height = height;
    }
    return changed;
}

enum visit_state { UNSEEN, OPEN, SEEN };

/* Counts the terminals that can follow a position. A position that is reached again without a
 * terminal is an error. */
struct follow_walk {
    const struct grammar *g;
    struct budget *budget;
    uint8_t *visits;   /* (n_nodes) */
    int32_t *n_follow; /* (n_nodes), valid once SEEN */
    int depth;
};

static enum osp_status count_following(struct follow_walk *f, int32_t grammar_node)
{
    int64_t n = 0;
    enum osp_status st = OSP_OK;

    if (f->visits[grammar_node] == SEEN)
        return OSP_OK;
    if (f->visits[grammar_node] == OPEN)
        return fail(OSP_EINVAL, "it refers to itself without any text in between");
    if (++f->depth > GRAMMAR_NODES_MAX / 8)
        return fail(OSP_ELIMIT, "too many optional parts follow each other");
    f->visits[grammar_node] = OPEN;
    for (int32_t e = f->g->nodes[grammar_node].first_edge; e >= 0; e = f->g->edges[e].next) {
        const struct edge *edge = &f->g->edges[e];
        int32_t on = edge->kind == EDGE_RULE ? edge->target : edge->to;

        TRY(budget_spend(f->budget, 2));
        if (edge->kind != EDGE_TERM)
            TRY(count_following(f, on));
        n += edge->kind == EDGE_TERM ? 1 : f->n_follow[on];
    }
    if (n > GRAMMAR_CHOICES_MAX)
        return fail(OSP_ELIMIT, "more than the limit of %d alternatives in one place",
                    (int)GRAMMAR_CHOICES_MAX);
    f->n_follow[grammar_node] = (int32_t)n;
    f->visits[grammar_node] = SEEN;
    f->depth--;
out:
    return st;
}

static enum osp_status check_following(const struct grammar *g, struct budget *budget)
{
    struct follow_walk f = {.g = g, .budget = budget};
    enum osp_status st;

    TRY(mem_try_array(&f.visits, g->n_nodes, sizeof *f.visits, "a grammar"));
    TRY(mem_try_array(&f.n_follow, g->n_nodes, sizeof *f.n_follow, "a grammar"));
    for (size_t p = g->n_nodes; p-- > 0;)
        TRY(count_following(&f, (int32_t)p));
out:
    free(f.visits);
    free(f.n_follow);
    return st;
}

enum osp_status grammar_finish(struct grammar *g, struct budget *budget)
{
    enum osp_status st;

    TRY(check_following(g, budget));
    do
        TRY(budget_spend(budget, (int64_t)(g->n_nodes + g->n_edges)));
    while (lower_heights(g));
    if (g->nodes[g->start].height >= GRAMMAR_DEPTH_MAX)
        st = fail(OSP_EINVAL, "no finite answer matches it (at most %d nested levels)",
                  (int)GRAMMAR_DEPTH_MAX);
    g->work = COMPILE_WORK_MAX - budget->work_left;
out:
    return st;
}

/* ---- grammars of one terminal ---- */

/* start --terminal--> end. */
static enum osp_status only(struct grammar *g, int32_t term)
{
    int32_t end;
    enum osp_status st = OSP_OK;

    if (g->n_nodes == 0)
        TRY(grammar_add_node(g, &g->start));
    TRY(grammar_add_node(g, &end));
    g->nodes[end].is_end = true;
    st = grammar_add_edge(g, g->start, EDGE_TERM, term, end);
out:
    return st;
}

enum osp_status grammar_from_choices(struct grammar **out, const char *const *choices, size_t n)
{
    struct grammar *g = grammar_new();
    struct budget budget = {COMPILE_WORK_MAX};
    int32_t term;
    enum osp_status st = OSP_OK;

    *out = NULL;
    if (n == 0)
        TRY(fail(OSP_EINVAL, "the list of choices is empty"));
    if (n > GRAMMAR_CHOICES_MAX)
        TRY(fail(OSP_ELIMIT, "%zu choices, limit is %d", n, (int)GRAMMAR_CHOICES_MAX));
    for (size_t i = 0; i < n; i++) {
        TRY(grammar_add_literal(g, choices[i], strlen(choices[i]), &term));
        TRY(only(g, term));
    }
    TRY(grammar_finish(g, &budget));
    *out = g;
out:
    if (st != OSP_OK)
        grammar_unref(g);
    return st;
}

enum osp_status grammar_from_regex(struct grammar **out, const char *regex, size_t n_bytes)
{
    struct grammar *g = grammar_new();
    struct budget budget = {COMPILE_WORK_MAX};
    struct dfa *dfa;
    int32_t term;
    bool empty;
    enum osp_status st;

    *out = NULL;
    TRY(regex_compile(&dfa, regex, n_bytes, (struct regex_options){false}, &budget));
    empty = dfa->accepts[dfa->start];
    TRY(grammar_add_dfa(g, dfa, true, &budget, &term));
    TRY(only(g, term));
    g->nodes[g->start].is_end = empty;
    TRY(grammar_finish(g, &budget));
    *out = g;
out:
    if (st != OSP_OK)
        grammar_unref(g);
    return st;
}
