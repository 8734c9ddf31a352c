#include "cli/terminal/pull_run.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/terminal/pull_line.h"

/* ---- signals ---- */

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_SIGNALS = sizeof SIGNALS / sizeof SIGNALS[0] };

static volatile int stopped;
static struct sigaction before[N_SIGNALS];

static void on_signal(int number)
{
    stopped = number;
}

const volatile int *pull_signals_begin(void)
{
    /* without SA_RESTART, so that a question ends, too */
    const struct sigaction action = {.sa_handler = on_signal};

    stopped = 0;
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(SIGNALS[i], &action, &before[i]);
    return &stopped;
}

void pull_signals_end(void)
{
    for (int i = 0; i < N_SIGNALS; i++)
        sigaction(SIGNALS[i], &before[i], NULL);
}

int pull_signal(void)
{
    return stopped;
}

/* ---- questions ---- */

bool pull_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool pull_ask(const char *question, bool fallback)
{
    char answer[16];

    fprintf(stderr, "%s [%s] ", question, fallback ? "Y/n" : "y/N");
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) == NULL) {
        clearerr(stdin);
        fputc('\n', stderr);
        return false;
    }
    return answer[0] == '\n' ? fallback : tolower((unsigned char)answer[0]) == 'y';
}

/* ---- the pull ---- */

struct run {
    const struct pull_request *request;
    struct pull_line line;
};

static void print_files(const struct osp_pull_plan *plan)
{
    char size[16];

    for (int i = 0; i < plan->n_files; i++)
        printf("%10s  %s\n", format_bytes(size, (double)plan->files[i].n_bytes),
               plan->files[i].path);
    printf("%10s  in %d files of %s, commit %s\n", format_bytes(size, (double)plan->total_bytes),
           plan->n_files, plan->repo, plan->commit);
    printf("%10s  to download to %s", format_bytes(size, (double)plan->needed_bytes), plan->cache);
    printf(", where %s are free\n", format_bytes(size, (double)plan->free_bytes));
}

static bool confirm(void *ctx, const struct osp_pull_plan *plan)
{
    struct run *run = ctx;
    char needed[16], *question;
    bool answer = true;

    if (run->request->dry_run) {
        print_files(plan);
        return false;
    }
    format_bytes(needed, (double)plan->needed_bytes);
    if (run->request->ask) {
        question = mem_printf("%s is not in the local Hugging Face cache. Download %s to %s?",
                              plan->repo, needed, plan->cache);
        answer = pull_ask(question, true);
        free(question);
    } else if (!run->request->quiet && plan->needed_bytes > 0) {
        fprintf(stderr, "%s: downloading %s of %d files to %s\n", plan->repo, needed, plan->n_files,
                plan->cache);
    }
    pull_line_init(&run->line, run->request->quiet);
    return answer;
}

static void progress(void *ctx, const struct osp_pull_progress *p)
{
    struct run *run = ctx;

    pull_line_show(&run->line, p);
}

static enum osp_status stopped_error(const struct osp_pull_report *report, const char *name)
{
    char done[16];

    return fail(OSP_ECANCELED, "%s: stopped; %s are on the disk, and the same command continues",
                name, format_bytes(done, (double)report->total.done_bytes));
}

enum osp_status pull_run(struct osp_pull_report *report, const struct pull_request *request)
{
    struct run run = {.request = request};
    struct osp_pull_options options = request->options;
    enum osp_status st;

    pull_line_init(&run.line, request->quiet);
    options.stop = pull_signals_begin();
    options.confirm = confirm;
    options.progress = progress;
    options.ctx = &run;
    st = osp_pull(report, &options);
    pull_line_clear(&run.line);
    pull_signals_end();
    return st == OSP_ECANCELED && stopped ? stopped_error(report, options.name) : st;
}
