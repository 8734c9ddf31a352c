/* Starts ranks 1 to N - 1 with mpirun of Open MPI, on this host or over ssh on others. Its library
 * is not used: MPI's calls wait without limit and end a whole job when one rank is lost, and ranks
 * that torchrun or Kubernetes start have no MPI. */
#ifndef DIST_MPIRUN_H
#define DIST_MPIRUN_H

#include <sys/types.h>

#include "base/status.h"

struct mpirun_options {
    int n_ranks;          /* of the model: one more than are started */
    const char *hosts;    /* separated by commas, this one first; NULL: this one */
    const char *address;  /* of rank 0 */
    const char *argument; /* the word with which this program starts itself as a rank */
    const char *token;    /* that the ranks show to rank 0 */
    const char *folder;   /* for Open MPI's files: mpirun_folder() */
};

/* OSP_EINVAL unless the hosts are names, without options or slots, that get equally many ranks. */
CHECKED enum osp_status mpirun_check(const struct mpirun_options *opt);
/* mpirun ends with the calling thread. */
CHECKED enum osp_status mpirun_start(pid_t *pid, const struct mpirun_options *opt);

/* The command as words, NULL after the last one, of which the caller frees each, and the list. */
CHECKED enum osp_status mpirun_command(char ***out, const struct mpirun_options *opt,
                                       const char *program);
void mpirun_command_free(char **words);

/* The folder for mpirun's own files on this host, below $TMPDIR or /tmp, of the server with this
 * process id, for one of its replicas. A mpirun that is ended leaves some of them. */
enum { MPIRUN_FOLDER_BYTES = 256 };
void mpirun_folder(char out[MPIRUN_FOLDER_BYTES], pid_t server, int replica);
/* Removes that folder, if this user owns it. For the server, which outlives its ranks. */
void mpirun_clean(pid_t server, int replica);

/* The first of the hosts, "" for NULL. */
void mpirun_first_host(char *out, size_t n_bytes, const char *hosts);

#endif
