/* A model of a server with a draft head, which runs the controller as engine/core/drafts.c does:
 * requests in streams, steps whose time depends on their rows, guesses that are right with any
 * probability. For the tests that bound what drafts cost and ask what they gain. */
#ifndef TESTS_UNIT_DRAFT_SERVER_H
#define TESTS_UNIT_DRAFT_SERVER_H

#include <math.h>

#include "base/rng.h"
#include "engine/draft/draft_control.h"

/* Times by the number of rows, between which they are linear. */
struct curve_point {
    int n_rows;
    double us;
};

struct server {
    const char *name;
    struct curve_point steps[12]; /* rising; n_rows = 0 ends them */
    double first_us, later_us;    /* passes of the head */
    double wait_us;               /* of the device for the host, in a step that is not sent ahead */
    double taps_us, copy_us;      /* following a step, and each request of it */
    double hidden_us;             /* likewise, each request: not reported to the controller */
    double graph_us;              /* the first step of a number of rows, the first passes */
    double noise;                 /* of a step, as a share of it */
    double cold;                  /* of a step behind prompts: what it takes longer, likewise */
    double late_us, late_every_us;   /* other processes take the device so long and so often */
    double drift, drift_every_us;    /* all times are up to so much longer, for so long */
    double prompt_us, prompt_row_us; /* a step of prompts */
    double follow_us, follow_row_us; /* following it */
};

enum {
    DRAFTS_OF_SERVER = 8,
    DRAFT_ROWS_OF_SERVER = 128,
    SERVER_STREAMS = 64,
    PROMPT_ROWS = 64,
    ANSWER_TOKENS_MAX = 1024
};

static inline double curve_us(const struct server *s, int n_rows)
{
    int i = 0;

    while (s->steps[i + 1].n_rows > 0 && s->steps[i + 1].n_rows < n_rows)
        i++;
    return s->steps[i].us + (s->steps[i + 1].us - s->steps[i].us) * (n_rows - s->steps[i].n_rows) /
                                (s->steps[i + 1].n_rows - s->steps[i].n_rows);
}

struct stream {
    struct draft_acceptance acceptance;
    int n_tokens, guessed_at, paid_at, n_probes;
    bool is_followed;
};

/* The probability that the draft at a depth (0: the first) behind n_tokens of an answer is right.
 * NULL: P for all of them. */
struct profile {
    double p;
    double (*at)(const struct profile *f, int n_tokens, int depth);
};

struct served {
    const struct server *s;
    struct draft_control control;
    struct draft_acceptance acceptance; /* of all requests */
    struct stream streams[SERVER_STREAMS];
    bool is_built[256], is_cold, has_followed;
    bool is_pass_built[2][SERVER_STREAMS + 8]; /* the first pass, later ones; by padded rows */
    double other_us;                           /* of following the step before */
    double us, graphs_us;                      /* all time, and what graphs took of it */
    double prompts_us;                         /* likewise the target's steps of prompts */
    double plain_us; /* the time that the same tokens take without drafts */
    int64_t n_tokens, n_drafts, n_steps;
    uint64_t seed, n_random;
};

static inline double draw(struct served *v)
{
    return rng_uniform(v->seed, v->n_random++, 3);
}

/* A step's time with noise, and with what other processes take. */
static inline double noisy_us(struct served *v, double us)
{
    const struct server *s = v->s;
    double n_late;

    us *= 1 + s->noise * (draw(v) - 0.5);
    if (s->late_every_us == 0)
        return us;
    n_late = us / s->late_every_us;
    return us + s->late_us * (floor(n_late) + (draw(v) < n_late - floor(n_late)));
}

/* How much longer everything takes now. */
static inline double drift(const struct served *v)
{
    const struct server *s = v->s;

    return s->drift > 0
               ? 1 + s->drift * rng_uniform(v->seed, (uint64_t)(v->us / s->drift_every_us), 4)
               : 1;
}

static inline double plain_step_us(const struct server *s, int n_seqs)
{
    return curve_us(s, n_seqs) * (s->late_every_us > 0 ? 1 + s->late_us / s->late_every_us : 1);
}

/* What following a step takes beside it, and what is reported of it. */
static inline void follow_step(struct served *v, int n_seqs, double step_us, double *hidden_us)
{
    double us = 0;
    int n = 0;

    for (int i = 0; i < n_seqs; i++)
        n += v->streams[i].is_followed;
    if (n > 0)
        us = v->s->taps_us + n * v->s->copy_us;
    v->other_us = draft_control_follow_ns(&v->control, step_us * 1e3, us * 1e3) * 1e-3;
    *hidden_us = n * v->s->hidden_us;
}

/* New requests in n streams from `first` on: a step of their prompts of n_rows each, and the head's
 * pass over it. */
static inline void begin_some(struct served *v, int first, int n, int n_rows)
{
    const struct server *s = v->s;
    const double slow = drift(v);
    const double step_us = slow * (s->prompt_us + n * n_rows * s->prompt_row_us);
    double pass_us = 0;
    int n_followed = 0;

    for (int i = first; i < first + n; i++) {
        if (v->streams[i].n_tokens > 0)
            draft_control_answer(&v->control, v->streams[i].n_tokens);
        v->streams[i] = (struct stream){
            .acceptance = draft_acceptance_begin(&v->acceptance),
            .is_followed = draft_control_begins_following(&v->control, n_rows, ANSWER_TOKENS_MAX)};
        n_followed += v->streams[i].is_followed;
    }
    draft_control_follow(&v->control, 0, (step_us + v->other_us) * 1e3, v->other_us * 1e3);
    if (n_followed > 0)
        pass_us = slow * (s->follow_us + n_followed * n_rows * s->follow_row_us);
    v->us += step_us + pass_us;
    v->plain_us += step_us;
    v->prompts_us += step_us;
    v->other_us = 0;
    v->is_cold = true;
    if (n_followed > 0) {
        v->other_us =
            draft_control_follow_ns(&v->control, step_us * 1e3,
                                    (pass_us + (v->has_followed ? 0 : s->graph_us)) * 1e3) *
            1e-3;
        draft_control_prompt(&v->control, n_followed * n_rows, v->other_us * 1e3);
        v->us -= v->other_us; /* counted in the next step */
        v->has_followed = true;
    }
}

/* New requests in all streams. */
static inline void begin_requests(struct served *v, int n_seqs, int n_rows)
{
    begin_some(v, 0, n_seqs, n_rows);
}

static inline double right_at(const struct profile *f, int n_tokens, int depth)
{
    return f->at != NULL ? f->at(f, n_tokens, depth) : f->p;
}

/* One draft after the other until one is wrong; at most n_known are seen. Returns those right. */
static inline int compare_drafts(struct served *v, struct stream *r, const struct profile *f,
                                 int n_known)
{
    for (int i = 0; i < n_known; i++) {
        const bool is_right = draw(v) < right_at(f, r->n_tokens, i);

        draft_acceptance_add(&r->acceptance, is_right, 1.0 / 16);
        draft_acceptance_add(&v->acceptance, is_right, 1.0 / 64);
        if (!is_right)
            return i;
    }
    return n_known;
}

/* Verifies n drafts of a stream, of n_guessed guesses; a guess that no step verifies is compared
 * with one token only. */
static inline int verify(struct served *v, struct stream *r, const struct profile *f, int n,
                         int n_guessed)
{
    const int n_right = compare_drafts(v, r, f, n > 0 ? n : n_guessed > 0);

    r->n_tokens += n > 0 ? 1 + n_right : 1;
    if (n_guessed > 0)
        r->guessed_at = r->n_tokens;
    if (n > 0)
        r->paid_at = r->n_tokens;
    if (r->is_followed && !draft_control_keeps_following(&v->control, r->n_tokens - r->paid_at))
        r->is_followed = false;
    return n > 0 ? n_right : 0;
}

/* A chain that the head has not made. */
static inline struct draft_candidate chain_of(double acceptance, int n)
{
    return (struct draft_candidate){.acceptance = acceptance,
                                    .n_max = n,
                                    .n_passes = n,
                                    .n_first_rows = 1,
                                    .n_later_rows = n - 1};
}

/* Chooses drafts; guesses[i] are made, of which list[i].n are verified. */
static inline int choose_drafts(struct served *v, int n_seqs, struct draft_candidate *list,
                                int *guesses)
{
    int n;

    for (int i = 0; i < n_seqs; i++)
        list[i] = chain_of(v->streams[i].acceptance.mean,
                           v->streams[i].is_followed ? DRAFTS_OF_SERVER : 0);
    n = draft_control_choose(&v->control, list, n_seqs, n_seqs, DRAFT_ROWS_OF_SERVER);
    for (int i = 0; i < n_seqs; i++) {
        struct stream *r = &v->streams[i];

        guesses[i] = list[i].n;
        if (list[i].n == 0 && r->is_followed &&
            draft_control_wants_probe(&v->control, r->n_tokens - r->guessed_at, r->n_probes)) {
            guesses[i] = 1;
            r->n_probes++;
        }
    }
    return n;
}

/* Rows of the graph of a pass over n rows, as on a GPU. */
static inline int padded(int n)
{
    return n <= 5 ? n : (n + 7) / 8 * 8;
}

/* Time of the passes, and of graphs that did not exist yet. *fair_us: what they count for. */
static inline double make_guesses(struct served *v, int n_seqs, const int *guesses, double *fair_us)
{
    double all_us = 0;

    *fair_us = 0;
    for (int depth = 0; depth < DRAFTS_OF_SERVER; depth++) {
        bool *is_built = v->is_pass_built[depth > 0];
        double us = drift(v) * (depth == 0 ? v->s->first_us : v->s->later_us);
        int n = 0;

        for (int i = 0; i < n_seqs; i++)
            n += guesses[i] > depth;
        if (n == 0)
            break;
        if (!is_built[padded(n)]) {
            us += v->s->graph_us;
            v->graphs_us += v->s->graph_us;
        }
        is_built[padded(n)] = true;
        all_us += us;
        *fair_us += draft_control_pass(&v->control, depth == 0, n, us * 1e3) * 1e-3;
    }
    return all_us;
}

static inline double run_rows(struct served *v, int n_rows, bool has_waited)
{
    double us =
        noisy_us(v, drift(v) * curve_us(v->s, n_rows) * (1 + (v->is_cold ? v->s->cold : 0)));

    v->is_cold = false;
    if (!v->is_built[n_rows]) {
        us += v->s->graph_us;
        v->graphs_us += v->s->graph_us;
    }
    v->is_built[n_rows] = true;
    return us + (has_waited ? v->s->wait_us : 0);
}

static inline void serve_step(struct served *v, int n_seqs, const struct profile *f)
{
    struct draft_candidate list[SERVER_STREAMS];
    int guesses[SERVER_STREAMS];
    struct draft_step done = {.n_seqs = n_seqs};
    const double other_us = v->other_us;
    const double slow = drift(v);
    const double cold_us = v->is_cold ? slow * v->s->cold * curve_us(v->s, n_seqs) : 0;
    double hidden_us, guess_us, fair_us, rows_us;

    done.n_draft_rows = choose_drafts(v, n_seqs, list, guesses);
    guess_us = make_guesses(v, n_seqs, guesses, &fair_us);
    rows_us = run_rows(v, n_seqs + done.n_draft_rows, guess_us > 0);
    follow_step(v, n_seqs, rows_us, &hidden_us);
    done.guess_ns = guess_us * 1e3;
    done.fair_guess_ns = fair_us * 1e3;
    done.other_ns = other_us * 1e3;
    done.ns = (rows_us + guess_us + other_us + hidden_us) * 1e3;
    for (int i = 0; i < n_seqs; i++)
        done.n_accepted += verify(v, &v->streams[i], f, list[i].n, guesses[i]);
    draft_control_follow(&v->control, n_seqs, done.ns, done.other_ns);
    draft_control_step(&v->control, &done);
    v->us += done.ns * 1e-3;
    v->plain_us +=
        slow * plain_step_us(v->s, n_seqs) * (n_seqs + done.n_accepted) / n_seqs + cold_us;
    v->n_tokens += n_seqs + done.n_accepted;
    v->n_drafts += done.n_draft_rows;
    v->n_steps++;
}

static inline struct served new_server(const struct server *s, uint64_t seed)
{
    return (struct served){.s = s, .acceptance = {.mean = 0.7}, .seed = seed};
}

/* Steps until each stream has got n_tokens more in the mean. Tokens a second in relation to no
 * drafts, without what graphs took to build. */
static inline double serve(struct served *v, int n_seqs, int n_tokens, const struct profile *f)
{
    const double us = v->us - v->graphs_us, plain_us = v->plain_us;
    const int64_t n = v->n_tokens;

    while (v->n_tokens - n < (int64_t)n_seqs * n_tokens)
        serve_step(v, n_seqs, f);
    return (v->plain_us - plain_us) / (v->us - v->graphs_us - us);
}

/* A request in each stream, its prompt included. */
static inline double serve_request(struct served *v, int n_seqs, int n_rows, int n_tokens,
                                   const struct profile *f)
{
    const double us = v->us - v->graphs_us, plain_us = v->plain_us;

    begin_requests(v, n_seqs, n_rows);
    (void)serve(v, n_seqs, n_tokens, f);
    return (v->plain_us - plain_us) / (v->us - v->graphs_us - us);
}

/* What has been served, to compare a part with. */
struct mark {
    double us, plain_us;
};

/* Without graphs and the target's steps of prompts. */
static inline struct mark mark(const struct served *v)
{
    return (struct mark){v->us - v->graphs_us - v->prompts_us, v->plain_us - v->prompts_us};
}

/* Speed in relation to no drafts. */
static inline double speed_since(const struct served *v, struct mark m)
{
    const struct mark now = mark(v);

    return (now.plain_us - m.plain_us) / (now.us - m.us);
}

/* Streams that begin one after the other on a new server, so that their answers of n_tokens are
 * evenly apart; each is followed by another one at once. Speed in relation to no drafts, of all but
 * the first n_first answers of n_requests. */
static inline double serve_apart(struct served *v, int n_seqs, int n_rows, int n_tokens,
                                 int n_first, int n_requests, const struct profile *f)
{
    struct mark first = {0, 0};

    for (int n_begun = 0, n_ended = 0; n_ended < n_requests;) {
        const int apart = n_tokens / n_seqs;

        if (n_begun < n_seqs && (n_begun == 0 || v->streams[n_begun - 1].n_tokens >= apart))
            begin_some(v, n_begun++, 1, n_rows);
        serve_step(v, n_begun, f);
        for (int i = 0; i < n_begun; i++)
            if (v->streams[i].n_tokens >= n_tokens) {
                begin_some(v, i, 1, n_rows);
                if (++n_ended == n_first)
                    first = mark(v);
            }
    }
    return speed_since(v, first);
}

/* The best fixed number of drafts, if acceptance is known: tokens a second in relation to no
 * drafts. right[i]: the probability that draft i is right, if those before it are. */
static inline double best_fixed(const struct server *s, const double *right)
{
    double best = 1, tokens = 1, all_right = 1;

    for (int k = 1; k <= DRAFTS_OF_SERVER; k++) {
        const double us = curve_us(s, 1 + k) + s->first_us + (k - 1) * s->later_us + s->wait_us +
                          s->taps_us + s->copy_us + s->hidden_us;

        all_right *= right[k - 1];
        tokens += all_right;
        if (tokens * s->steps[0].us / us > best)
            best = tokens * s->steps[0].us / us;
    }
    return best;
}

#endif
