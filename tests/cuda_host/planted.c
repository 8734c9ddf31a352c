/* Bugs planted in lists: the rules of program/hazards.h must find each. */
#include "unit.h"

#include "cuda/program/hazards.h"
#include "cuda_host/situations.h"

struct planted {
    struct symbolic *s;
    struct launch_list list;
    struct step_counts counts;
};

static void plant(struct planted *out, int n_decode, int n_prefill)
{
    const struct situation at = {SM_90A, false, {.n_decode = n_decode, .n_prefill = n_prefill}};

    out->s = symbolic_new(&models[0]);
    assert_int_equal(make_list(&out->list, &out->counts, out->s, &out->s->program, &at), OSP_OK);
    assert_int_equal(launch_list_check(&out->list, &out->s->program, &out->counts), OSP_OK);
}

static void unplant(struct planted *p)
{
    launch_list_free(&p->list);
    symbolic_free(p->s);
}

/* `what` is wrong with the list: the check must say so with this text. */
static void must_fail(const struct planted *p, const char *what, const char *text)
{
    if (launch_list_check(&p->list, &p->s->program, &p->counts) == OSP_OK)
        fail_msg("not found: %s", what);
    if (strstr(fail_message(), text) == NULL)
        fail_msg("%s: the message is \"%s\", without \"%s\"", what, fail_message(), text);
}

/* Takes the launch out, with what it touches. */
static void remove_launch(struct launch_list *list, int launch)
{
    int n = 0;

    for (int i = 0; i < list->n_touches; i++) {
        struct touch t = list->touches[i];

        if (t.launch == launch)
            continue;
        t.launch -= t.launch > launch;
        list->touches[n++] = t;
    }
    list->n_touches = n;
    memmove(&list->launches[launch], &list->launches[launch + 1],
            (size_t)(--list->n - launch) * sizeof(list->launches[0]));
}

static void swap_launches(struct launch_list *list, int launch)
{
    const struct launch first = list->launches[launch];

    list->launches[launch] = list->launches[launch + 1];
    list->launches[launch + 1] = first;
    for (int i = 0; i < list->n_touches; i++) {
        struct touch *t = &list->touches[i];

        if (t->launch == launch || t->launch == launch + 1)
            t->launch = 2 * launch + 1 - t->launch;
    }
}

/* It adds to the chunks that survey has made, so that notes do not tell whether it has run. */
static bool is_weigh(const struct launch_list *list, int launch)
{
    return strncmp(list->launches[launch].name, "weigh<", 6) == 0;
}

static const int planted_rows[] = {1, 5, 64, 65, 256};
enum { N_PLANTED = sizeof(planted_rows) / sizeof(planted_rows[0]) };

void test_finds_a_removed_launch(void **state)
{
    char what[200];

    (void)state;
    for (int r = 0; r < N_PLANTED; r++)
        for (int launch = 0;; launch++) {
            struct planted p;

            plant(&p, planted_rows[r], 0);
            if (launch == p.list.n) {
                unplant(&p);
                break;
            }
            (void)snprintf(what, sizeof(what), "%d rows without launch %d, %s", planted_rows[r],
                           launch, p.list.launches[launch].name);
            if (!is_weigh(&p.list, launch)) {
                remove_launch(&p.list, launch);
                must_fail(&p, what, "");
            }
            unplant(&p);
        }
}

/* Whether the launch and the next one touch something that one of them writes. */
static bool are_ordered(const struct launch_list *list, int launch)
{
    for (int i = 0; i < list->n_touches; i++)
        for (int k = 0; k < list->n_touches; k++) {
            const struct touch *a = &list->touches[i], *b = &list->touches[k];

            if (a->launch == launch && b->launch == launch + 1 && a->tensor == b->tensor &&
                (a->tensor > 0 || a->workspace == b->workspace) && a->kind == TOUCH_WRITE &&
                b->kind == TOUCH_READ)
                return true;
        }
    return false;
}

void test_finds_swapped_launches(void **state)
{
    char what[300];
    int n = 0;

    (void)state;
    for (int r = 0; r < N_PLANTED; r++) {
        struct planted p;

        plant(&p, planted_rows[r], 0);
        for (int launch = 0; launch + 1 < p.list.n; launch++) {
            if (!are_ordered(&p.list, launch) || is_weigh(&p.list, launch))
                continue;
            swap_launches(&p.list, launch);
            (void)snprintf(what, sizeof(what), "%d rows, %s before %s", planted_rows[r],
                           p.list.launches[launch].name, p.list.launches[launch + 1].name);
            must_fail(&p, what, "launch ");
            swap_launches(&p.list, launch);
            n++;
        }
        unplant(&p);
    }
    assert_true(n > 80);
}

void test_finds_an_early_read(void **state)
{
    (void)state;
    for (int r = 0; r < N_PLANTED; r++) {
        struct planted p;

        plant(&p, planted_rows[r], 0);
        for (int i = 0; i < p.list.n_touches; i++) {
            struct touch *t = &p.list.touches[i];

            if (t->kind != TOUCH_READ || t->workspace == WORKSPACE_merge_bufs)
                continue;
            t->kind = TOUCH_EARLY;
            must_fail(&p, "a read before the wait", "before griddepcontrol.wait, and launch");
            t->kind = TOUCH_READ;
        }
        unplant(&p);
    }
}

/* A norm that was left to the next kernel, which does not do it: nobody writes y. */
void test_finds_a_norm_that_nobody_does(void **state)
{
    struct planted p;
    int n = 0;

    (void)state;
    plant(&p, 1, 0);
    for (int i = 0; i < p.list.n_touches; i++) {
        struct touch *t = &p.list.touches[i];
        const bool has_qkv = strncmp(p.list.launches[t->launch].name, "attn_layer_", 11) == 0;

        if (!has_qkv || t->kind != TOUCH_WRITE || t->tensor == 0 ||
            t->op > p.list.launches[t->launch].op ||
            p.s->program.ops[t->op].stage != STAGE_residual_rmsnorm)
            continue;
        /* the kernel takes y as if it were there, for the attn_qkv behind the norm */
        t->kind = TOUCH_READ;
        t->op++;
        must_fail(&p, "a norm that no launch does",
                  "the program's order asks for the version of op 7 (residual_rmsnorm of layer 0)");
        n++;
        break;
    }
    assert_int_equal(n, 1);
    unplant(&p);
}

void test_finds_a_tapped_output_that_is_missing(void **state)
{
    struct planted p;

    (void)state;
    plant(&p, 1, 0);
    remove_launch(&p.list, p.list.n - 1);
    must_fail(&p, "no tokens", "the list leaves tokens as written by no op of the step");
    unplant(&p);
}

void test_finds_a_stale_workspace(void **state)
{
    struct planted p;

    (void)state;
    plant(&p, 64, 0);
    for (int launch = 0; launch < p.list.n; launch++)
        if (strncmp(p.list.launches[launch].name, "round_rows", 10) == 0) {
            remove_launch(&p.list, launch);
            break;
        }
    must_fail(&p, "rows that nobody rounded",
              "(smem_resident_kernel<resident_shape<6,2>,0>) reads the workspace rounded, which "
              "no launch before it writes");
    unplant(&p);
}
