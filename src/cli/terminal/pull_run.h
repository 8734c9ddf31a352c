/* Pulls a model with a progress line, a question if wanted, and Ctrl-C that leaves the download
 * resumable: for osprey pull and for commands with --pull. */
#ifndef CLI_TERMINAL_PULL_RUN_H
#define CLI_TERMINAL_PULL_RUN_H

#include "base/status.h"
#include "osprey_tools.h"

struct pull_request {
    struct osp_pull_options options; /* without stop, confirm, progress and ctx */
    bool ask;                        /* before the download, at the terminal */
    bool dry_run;                    /* print the files, download nothing */
    bool quiet;                      /* no progress */
};

/* OSP_ECANCELED: by the user, by a signal (pull_signal()), or after a dry run. */
CHECKED enum osp_status pull_run(struct osp_pull_report *report,
                                 const struct pull_request *request);

/* Asks at the terminal; an empty line is `fallback`. */
bool pull_ask(const char *question, bool fallback);
bool pull_can_ask(void); /* standard input and standard error are a terminal */

/* SIGINT, SIGTERM and SIGHUP set *pull_signals_begin() until pull_signals_end(). */
const volatile int *pull_signals_begin(void);
void pull_signals_end(void);
/* The signal that came between the last two of these calls; 0: none. */
int pull_signal(void);

#endif
