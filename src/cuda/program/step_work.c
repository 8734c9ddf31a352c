/* Bytes and flops of the stages of a step, for their fraction of the roofline: rates that follow
 * from the program, times the counts of the batch. The bytes of the experts' weights are counted on
 * the device, because the number of experts that a step reads is known only there. */
#include <assert.h>

#include "backend/kv_page.h"
#include "cuda/common/layout.h"
#include "cuda/program/plan.h"

static double weight_bytes(const struct tensor *w)
{
    return (double)(w->layout == LAYOUT_PACKED ? matrix_bytes(w) : tensor_bytes(w));
}

static void add(struct work_rates *r, enum work_per per, double bytes, double flops)
{
    r->of[r->stage][per].bytes += bytes;
    r->of[r->stage][per].flops += flops;
}

/* A matrix, read once, times rows; per: of these rows. */
static void add_matmul(struct work_rates *r, enum work_per once, enum work_per per,
                       const struct tensor *w)
{
    const double rows = (double)matrix_rows(w), columns = (double)matrix_columns(w);

    add(r, once, weight_bytes(w), 0);
    add(r, per, 4 * (rows + columns), 2 * rows * columns);
}

/* Of the tail, whole tiles are computed: its rows are the least of them. */
static void add_attn(struct work_rates *r, const struct attn_args *a, bool is_tail)
{
    const bool has_window = a->window_tokens > 0;
    const double row_bytes =
        (double)kv_page_bytes(a->kv.dtype, a->kv.dim[2], a->kv.dim[4]) / PAGE_TOKENS;

    assert(a->window_tokens == 0 || r->window_tokens == 0 || a->window_tokens == r->window_tokens);
    if (a->window_tokens > 0)
        r->window_tokens = a->window_tokens;
    if (is_tail)
        add(r, has_window ? WORK_PER_TAIL_WINDOW_KEY : WORK_PER_TAIL_KEY, row_bytes,
            4 * (double)a->q.dim[1]);
    else
        add(r, has_window ? WORK_PER_WINDOW_KEY : WORK_PER_KEY, row_bytes, 4 * (double)a->q.dim[1]);
    add(r, is_tail ? WORK_PER_TAIL_ROW : WORK_PER_ROW, 8 * (double)a->q.dim[1], 0);
}

/* Weights of the experts: counted on the device. */
static void add_experts(struct work_rates *r, enum work_per per, const struct experts_args *a)
{
    const double n_ranks = (double)a->ids.dim[1];
    const double up = (double)matrix_rows(&a->w_up) * (double)matrix_columns(&a->w_up);
    const double down = (double)matrix_rows(&a->w_down) * (double)matrix_columns(&a->w_down);

    add(r, per, 4 * (double)a->h.dim[1] * (n_ranks + 1), 2 * (up + down) * n_ranks);
}

/* The stages of draft heads. */
static void add_draft_op(struct work_rates *r, enum stage stage, const union stage_args *args,
                         enum work_per once, enum work_per per)
{
    double n;

    switch (stage) {
    case STAGE_tap:
        add(r, per, 8 * (double)args->tap.x.dim[1], 0);
        break;
    case STAGE_draft_fc:
        add_matmul(r, once, per, &args->draft_fc.w);
        break;
    case STAGE_draft_input:
        n = (double)args->draft_input.x.dim[1];
        add(r, per, n * (args->draft_input.table.dtype == DTYPE_F32 ? 20 : 18), 8 * n);
        break;
    case STAGE_mlp:
        add_matmul(r, once, per, &args->mlp.w_gate);
        add_matmul(r, once, per, &args->mlp.w_up);
        add_matmul(r, once, per, &args->mlp.w_down);
        break;
    case STAGE_gather:
        add(r, WORK_PER_SAMPLE, 8 * (double)args->gather.x.dim[1], 0);
        break;
    default:
        break;
    }
}

static void add_op(struct work_rates *r, const struct program_op *op, const union stage_args *args)
{
    const bool is_tail = op->rows == ROWS_SAMPLED;
    const enum work_per once = is_tail ? WORK_PER_TAIL : WORK_PER_STEP;
    const enum work_per per = is_tail ? WORK_PER_TAIL_ROW : WORK_PER_ROW;
    double n;

    r->stage = op->stage;
    r->n_calls[op->stage][is_tail]++;
    switch (op->stage) {
    case STAGE_embed_rmsnorm:
        n = (double)args->embed_rmsnorm.x.dim[1];
        add(r, per, n * (args->embed_rmsnorm.table.dtype == DTYPE_F32 ? 12 : 10), 4 * n);
        break;
    case STAGE_attn_qkv:
        for (int i = 0; i < 3; i++)
            add_matmul(r, once, per, &args->attn_qkv.wqkv[i]);
        break;
    case STAGE_attn:
        add_attn(r, &args->attn, is_tail);
        break;
    case STAGE_attn_out:
        add_matmul(r, once, per, &args->attn_out.wo);
        break;
    case STAGE_residual_rmsnorm:
        n = (double)args->residual_rmsnorm.x.dim[1];
        add(r, per, 16 * n, 5 * n);
        break;
    case STAGE_router:
        add_matmul(r, once, per, &args->router.wr);
        break;
    case STAGE_experts:
        add_experts(r, per, &args->experts);
        break;
    case STAGE_logits:
        add_matmul(r, WORK_PER_SAMPLING, WORK_PER_SAMPLE, &args->logits.head);
        break;
    case STAGE_sample:
        n = (double)args->sample.logits.dim[1];
        add(r, WORK_PER_SAMPLE, 4 * n, 2 * n);
        break;
    default:
        add_draft_op(r, op->stage, args, once, per);
        break;
    }
}

void work_rates_of(struct work_rates *out, const struct program *p)
{
    union stage_args args;

    *out = (struct work_rates){0};
    for (int i = 0; i < p->n_ops; i++) {
        program_args(p, i, &args);
        add_op(out, &p->ops[i], &args);
    }
}

/* Keys that the row sees, in all and in the window. */
static void add_keys(double *all, double *window, const struct work_rates *r, const struct batch *b,
                     int row)
{
    const int n_seen = BATCH_POSITIONS(b)[row] + 1;

    *all += n_seen;
    *window += n_seen < r->window_tokens ? n_seen : r->window_tokens;
}

void step_work(struct stage_cost out[N_STAGES], const struct work_rates *r,
               const struct step_counts *n, const struct batch *b)
{
    const bool has_last = !n->has_tail || n->n_tail > 0; /* fuse(): is_unneeded() */
    double times[N_WORK_PERS] = {[WORK_PER_STEP] = 1,
                                 [WORK_PER_ROW] = n->n_rows,
                                 [WORK_PER_TAIL] = has_last,
                                 [WORK_PER_TAIL_ROW] = n->n_tail,
                                 [WORK_PER_SAMPLING] = n->n_samples > 0,
                                 [WORK_PER_SAMPLE] = n->n_samples};

    for (int row = 0; row < b->n_rows; row++)
        add_keys(&times[WORK_PER_KEY], &times[WORK_PER_WINDOW_KEY], r, b, row);
    for (int i = 0; i < n->n_tail; i++)
        add_keys(&times[WORK_PER_TAIL_KEY], &times[WORK_PER_TAIL_WINDOW_KEY], r, b,
                 n->has_tail ? BATCH_SAMPLES(b)[i].row : i);
    for (int stage = 0; stage < N_STAGES; stage++) {
        out[stage] = (struct stage_cost){.n_calls = r->n_calls[stage][false] +
                                                    (has_last ? r->n_calls[stage][true] : 0)};
        for (int per = 0; per < N_WORK_PERS; per++) {
            out[stage].bytes += r->of[stage][per].bytes * times[per];
            out[stage].flops += r->of[stage][per].flops * times[per];
        }
    }
}

double step_expert_bytes(const struct program *p)
{
    union stage_args args;

    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].stage == STAGE_experts) {
            program_args(p, i, &args);
            return weight_bytes(&args.experts.w_up) + weight_bytes(&args.experts.w_down);
        }
    return 0;
}
