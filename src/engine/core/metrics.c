#include "engine/core/metrics.h"

static const double KEPT_A_STEP = 0.99, KEPT_AN_ANSWER = 0.95; /* decay of the fading sums */

/* Bounds in the ranges that vLLM's dashboards expect. */
static const double WAITS[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                               1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
static const double GAPS[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                              0.4,   0.5,    0.75,  1,    2.5,   5,    7.5,   10,  20,   40,  80};
static const double LIVES[] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                               30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double COUNTS[] = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};

#define INFO_ROW(member, scale, name, text)                                                        \
    {name, text, scale, (int)(sizeof scale / sizeof scale[0])},
static const struct osp_histogram_info INFOS[OSP_N_HISTOGRAMS] = {OSP_HISTOGRAM_LIST(INFO_ROW)};
#undef INFO_ROW

#define SCALE_FITS(member, scale, name, text)                                                      \
    _Static_assert(sizeof scale / sizeof scale[0] < OSP_BUCKETS_MAX, "one bucket above all "       \
                                                                     "bounds");
OSP_HISTOGRAM_LIST(SCALE_FITS)
#undef SCALE_FITS

const struct osp_histogram_info *osp_histogram_info(enum osp_histogram_id id)
{
    return &INFOS[id];
}

static void observe(struct metrics *m, enum osp_histogram_id id, double value)
{
    struct osp_histogram *h = &m->published.histograms[id];
    int i = 0;

    while (i < INFOS[id].n_bounds && value > INFOS[id].bounds[i])
        i++;
    h->counts[i]++;
    h->sum += value;
}

static double seconds_between(uint64_t begin_ns, uint64_t end_ns)
{
    return end_ns > begin_ns ? (double)(end_ns - begin_ns) * 1e-9 : 0;
}

void metrics_step(struct metrics *m, int n_rows, double seconds)
{
    observe(m, OSP_HISTOGRAM_STEP, seconds);
    observe(m, OSP_HISTOGRAM_STEP_ROWS, n_rows);
    m->recent_rows = KEPT_A_STEP * m->recent_rows + n_rows;
    m->recent_seconds = KEPT_A_STEP * m->recent_seconds + seconds;
}

static void leave_queue(struct metrics *m, struct request_marks *r, const struct seq *q)
{
    if (r->left_queue)
        return;
    r->left_queue = true;
    m->n_prompt_left_queue += q->n_prompt;
    if (q->times.admit_ns != 0)
        observe(m, OSP_HISTOGRAM_QUEUE, seconds_between(q->times.submit_ns, q->times.admit_ns));
}

void metrics_chunk(struct metrics *m, struct request_marks *r, const struct seq *q, bool has_token,
                   uint64_t now_ns)
{
    leave_queue(m, r, q);
    if (!has_token)
        return;
    if (r->token_ns == 0) {
        observe(m, OSP_HISTOGRAM_FIRST_TOKEN, seconds_between(q->times.submit_ns, now_ns));
        observe(m, OSP_HISTOGRAM_PREFILL, seconds_between(q->times.admit_ns, now_ns));
    } else {
        observe(m, OSP_HISTOGRAM_TOKEN, seconds_between(r->token_ns, now_ns));
    }
    r->token_ns = now_ns;
}

static void count_end(struct metrics *m, enum seq_end end, bool is_answered)
{
    if (end == SEQ_END_FAILED || end == SEQ_END_TIMEOUT)
        m->published.n_failed++;
    else if (end == SEQ_END_LENGTH)
        m->published.n_length++;
    else if (end == SEQ_END_STOP || is_answered)
        m->published.n_stopped++;
    else
        m->published.n_canceled++;
}

/* Of answers that ended by themselves. */
static void observe_answer(struct metrics *m, const struct seq *q, uint64_t now_ns)
{
    int n_answer = q->n_tokens - q->n_prompt;
    double decode = seconds_between(q->times.first_token_ns, q->times.last_token_ns);

    observe(m, OSP_HISTOGRAM_LIFE, seconds_between(q->times.submit_ns, now_ns));
    observe(m, OSP_HISTOGRAM_DECODE, decode);
    observe(m, OSP_HISTOGRAM_PROMPT_TOKENS, q->n_prompt);
    observe(m, OSP_HISTOGRAM_ANSWER_TOKENS, n_answer);
    if (n_answer > 1)
        observe(m, OSP_HISTOGRAM_MEAN_TOKEN, decode / (n_answer - 1));
    m->recent_answers = KEPT_AN_ANSWER * m->recent_answers + 1;
    m->recent_answer_tokens = KEPT_AN_ANSWER * m->recent_answer_tokens + n_answer;
}

void metrics_end(struct metrics *m, struct request_marks *r, const struct seq *q, bool is_answered,
                 uint64_t now_ns)
{
    bool is_own_end = q->end == SEQ_END_STOP || q->end == SEQ_END_LENGTH || is_answered;

    leave_queue(m, r, q);
    count_end(m, q->end, is_answered);
    if (is_own_end)
        observe_answer(m, q, now_ns);
}

double metrics_rows_a_second(const struct metrics *m)
{
    return m->recent_seconds > 0 ? m->recent_rows / m->recent_seconds : 0;
}

double metrics_answer_tokens(const struct metrics *m)
{
    return m->recent_answers > 0 ? m->recent_answer_tokens / m->recent_answers : 0;
}
