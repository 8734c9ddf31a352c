#include "engine/worker/rank_process.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "dist/rank_env.h"
#include "dist/rank_member.h"
#include "engine/core/model_api.h"
#include "engine/core/rank_pages.h"
#include "engine/worker/rank_model.h"
#include "engine/worker/worker.h"

enum {
    PAUSE_MS = 200,     /* before a rank that has failed is started again */
    PAUSE_MS_MAX = 5000 /* doubled each time until then */
};

struct rank_process {
    struct rank_member *member;
    struct rank_model_frame model_frame; /* holds the strings of the options */
    struct osp_model *model;
    struct rank_pages pages;
    uint64_t running; /* ticket of the last step, which nobody waits for yet; 0: there is none */
    bool is_over;
};

/* ---- messages of rank 0 ---- */

static enum osp_status send_outcome(struct rank_process *p, enum osp_status opened)
{
    const char *message = opened == OSP_OK ? "" : fail_message();

    return rank_member_send(p->member, opened == OSP_OK ? RANK_READY : RANK_FAILED, message,
                            strlen(message));
}

static enum osp_status on_model(struct rank_process *p, const struct rank_message *m)
{
    enum osp_status st, opened;

    if (p->model != NULL)
        return fail(OSP_EFORMAT, "rank 0 sent a second model");
    TRY(rank_model_read(&p->model_frame, m->data, m->n_bytes));
    p->model_frame.part.exchange = rank_member_exchange(p->member);
    p->model_frame.part.n_local = rank_member_local(p->member);
    opened = model_open_part(&p->model, &p->model_frame.options, &p->model_frame.part);
    if (opened != OSP_OK)
        log_error("%s", fail_message());
    TRY(send_outcome(p, opened));
    p->is_over = opened != OSP_OK;
out:
    return st;
}

/* With a device that queues steps, the step before runs while this one is sent to it. */
static enum osp_status wait_for_step(struct rank_process *p, uint64_t ticket)
{
    const uint64_t before = p->running;
    enum osp_status st;

    if (!p->model->device.runs_pipelined)
        return model_wait(p->model->model, ticket);
    p->running = ticket;
    if (before != 0)
        TRY(model_wait(p->model->model, before));
    st = OSP_OK;
out:
    return st;
}

static enum osp_status on_step(struct rank_process *p, const struct rank_message *m)
{
    const uint64_t begin_ns = clock_ns();
    const struct batch *b = m->data;
    uint64_t ticket;
    enum osp_status st;

    if (m->n_bytes < sizeof *b || (size_t)b->size_bytes != m->n_bytes)
        return fail(OSP_EFORMAT, "rank 0 sent a batch of %zu bytes that has another size",
                    m->n_bytes);
    TRY(model_step(p->model->model, b, &ticket));
    TRY(wait_for_step(p, ticket));
    rank_member_count_step(p->member, clock_ns() - begin_ns);
out:
    return st;
}

static enum osp_status handle_message(struct rank_process *p, const struct rank_message *m)
{
    if (m->kind == RANK_MODEL)
        return on_model(p, m);
    if (m->kind == RANK_QUIT) {
        p->is_over = true;
        return OSP_OK;
    }
    if (p->model == NULL)
        return fail(OSP_EFORMAT, "rank 0 sent a step before the model");
    switch (m->kind) {
    case RANK_STEP:
        return on_step(p, m);
    case RANK_HOST_PAGES:
        return rank_pages_alloc(&p->pages, p->model, m->data, m->n_bytes);
    case RANK_MOVE:
        return rank_pages_move(&p->pages, p->model, m->data, m->n_bytes);
    default:
        return fail(OSP_EFORMAT, "rank 0 sent a message that only other ranks send");
    }
}

static enum osp_status run(struct rank_process *p, const char *address, int rank, int n_ranks)
{
    struct rank_message *m;
    enum osp_status st;

    TRY(rank_member_open(&p->member, address, rank, n_ranks, START_MS_MAX));
    while (!p->is_over) {
        TRY(rank_member_next(p->member, &m));
        TRY(handle_message(p, m));
    }
out:
    return st;
}

static int run_rank(const char *address, int rank, int n_ranks)
{
    struct rank_process p = {.model = NULL};
    const enum osp_status st = run(&p, address, rank, n_ranks);

    if (st != OSP_OK) {
        log_error("rank %d ends: %s", rank, fail_message());
        _exit(WORKER_EXIT_DEVICE); /* closing could wait for kernels that wait for a lost rank */
    }
    rank_pages_release(&p.pages);
    osp_model_close(p.model);
    rank_model_release(&p.model_frame);
    rank_member_close(p.member);
    return EXIT_SUCCESS;
}

/* ---- started by mpirun, or by osp_rank_run() ---- */

static int run_by_environment(const char *address)
{
    struct rank_env env;
    bool found;

    if (rank_env_read(&found, &env, NULL, NULL) != OSP_OK || !found) {
        log_error("this process is not a rank: %s",
                  found ? fail_message() : "its launcher set no variables");
        return EXIT_FAILURE;
    }
    if (address != NULL) /* mpirun has started all ranks but 0 */
        return run_rank(address, env.rank + 1, 0);
    return run_rank(env.address, env.rank, env.n_ranks);
}

int rank_process_main(int argc, char **argv)
{
    if (process_is_child(argc, argv, RANK_CHILD_ARGUMENT))
        return run_by_environment(NULL);
    if (argc != 3 || strcmp(argv[1], RANK_ARGUMENT) != 0)
        return -1;
    process_end_with_parent();
    return run_by_environment(argv[2]);
}

/* ---- a rank whose launcher is not osprey: its process starts the rank again when it fails ---- */

static int wait_for_end(pid_t pid)
{
    int status;

    while (!process_reap(pid, &status))
        (void)poll(NULL, 0, 20);
    return status;
}

enum osp_status osp_rank_run(void)
{
    int pause_ms = PAUSE_MS;
    enum osp_status st;

    for (;;) {
        const uint64_t begin_ns = clock_ns();
        int socket, status;
        pid_t pid;

        TRY(process_start(&pid, &socket, RANK_CHILD_ARGUMENT, NULL));
        status = wait_for_end(pid);
        close(socket);
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
            return OSP_OK;
        pause_ms = clock_ns() - begin_ns > (uint64_t)PAUSE_MS_MAX * 1000000u ? PAUSE_MS
                   : pause_ms * 2 < PAUSE_MS_MAX                             ? pause_ms * 2
                                                                             : PAUSE_MS_MAX;
        log_warn("the process of this rank has ended; it is started again");
        (void)poll(NULL, 0, pause_ms);
    }
out:
    return st;
}

enum osp_status osp_rank_get(struct osp_rank *out)
{
    static _Thread_local struct rank_env env;
    bool found;
    enum osp_status st;

    *out = (struct osp_rank){.n_ranks = 1};
    TRY(rank_env_read(&found, &env, NULL, NULL));
    if (found && env.n_ranks > 1)
        *out = (struct osp_rank){.rank = env.rank,
                                 .n_ranks = env.n_ranks,
                                 .started_by = env.started_by,
                                 .address = env.address,
                                 .n_local = env.n_local};
out:
    return st;
}
