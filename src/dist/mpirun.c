#include "dist/mpirun.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory.h"
#include "base/process.h"
#include "dist/rank_protocol.h"

enum {
    WORDS_MAX = 96,
    VARIABLES_MAX = 32,              /* of NCCL, that are passed on */
    HOSTS_BYTES_MAX = 4096,          /* of the list as it is given */
    HOSTS_RANKS_BYTES_MAX = 1 << 16, /* of the list with numbers of ranks */
    FOLDERS_OPEN_MAX = 16            /* while a tree is removed */
};

/* ---- the folder ---- */

void mpirun_folder(char out[MPIRUN_FOLDER_BYTES], pid_t server, int replica)
{
    const char *base = getenv("TMPDIR");

    if (base == NULL || base[0] == '\0' || strlen(base) > MPIRUN_FOLDER_BYTES / 2)
        base = "/tmp";
    snprintf(out, MPIRUN_FOLDER_BYTES, "%s/osprey-ranks-%d-%d-%d", base, (int)geteuid(),
             (int)server, replica);
}

/* Whether it is a folder of this user that others cannot write. */
static bool is_own_folder(const char *path)
{
    struct stat s;

    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static enum osp_status make_folder(const char *path)
{
    if (mkdir(path, S_IRWXU) == 0 || (errno == EEXIST && is_own_folder(path)))
        return OSP_OK;
    return fail(OSP_EIO, "cannot make the folder %s for mpirun's files: %s", path, strerror(errno));
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s;
    (void)type;
    (void)at;
    (void)remove(path); /* mpirun, which is ending, may remove it, too */
    return 0;
}

void mpirun_clean(pid_t server, int replica)
{
    char path[MPIRUN_FOLDER_BYTES];

    mpirun_folder(path, server, replica);
    if (is_own_folder(path))
        (void)nftw(path, remove_one, FOLDERS_OPEN_MAX, FTW_DEPTH | FTW_PHYS);
}

/* ---- the command ---- */

static int count_hosts(const char *hosts)
{
    int n = 1;

    for (const char *c = hosts; c != NULL && *c != '\0'; c++)
        n += *c == ',';
    return n;
}

/* mpirun gives the names to ssh, and understands NAME:SLOTS. */
static enum osp_status check_names(const char *hosts)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789._-";
    const char *at = hosts;

    if (strlen(hosts) > HOSTS_BYTES_MAX)
        return fail(OSP_EINVAL, "hosts: the list has %zu bytes, expected at most %d", strlen(hosts),
                    HOSTS_BYTES_MAX);
    for (;;) {
        const size_t n = strcspn(at, ",");

        if (n == 0)
            return fail(OSP_EINVAL, "hosts \"%s\": a name is empty; expected NAME,NAME,...", hosts);
        if (at[0] == '-' || strspn(at, allowed) != n)
            return fail(OSP_EINVAL,
                        "hosts \"%s\": \"%.*s\" is not a host's name; expected letters, digits, "
                        "'.', '_' and '-', and no '-' at the start",
                        hosts, (int)n, at);
        if (at[n] == '\0')
            return OSP_OK;
        at += n + 1;
    }
}

enum osp_status mpirun_check(const struct mpirun_options *opt)
{
    const int n_hosts = count_hosts(opt->hosts);
    enum osp_status st = OSP_OK;

    if (opt->hosts != NULL)
        TRY(check_names(opt->hosts));
    if (opt->n_ranks % n_hosts != 0)
        return fail(OSP_EINVAL,
                    "hosts \"%s\": %d ranks cannot be divided among %d hosts; every host needs "
                    "equally many",
                    opt->hosts, opt->n_ranks, n_hosts);
out:
    return st;
}

void mpirun_first_host(char *out, size_t n_bytes, const char *hosts)
{
    const char *given = hosts != NULL ? hosts : "";

    snprintf(out, n_bytes, "%.*s", (int)strcspn(given, ","), given);
}

/* "b:2,c:2": the hosts with their ranks; the first one has rank 0 already. */
static char *host_list(const struct mpirun_options *opt)
{
    const int n_each = opt->n_ranks / count_hosts(opt->hosts);
    struct buf b;

    buf_init(&b, HOSTS_RANKS_BYTES_MAX);
    for (const char *at = opt->hosts; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        const int n_ranks = at == opt->hosts ? n_each - 1 : n_each;

        if (n_ranks > 0)
            buf_printf(&b, "%s%.*s:%d", b.size_bytes > 0 ? "," : "", (int)n, at, n_ranks);
        at += n + (at[n] == ',');
    }
    return buf_take(&b);
}

/* "-x NAME" for the variables that set up NCCL: ssh does not pass them to other hosts. */
static int pass_variables(char **words)
{
    static const char prefix[] = "NCCL_", library[] = "OSPREY_NCCL_LIBRARY=";
    int n = 0;

    for (char **at = environ; *at != NULL && n < 2 * VARIABLES_MAX; at++) {
        const size_t length = strcspn(*at, "=");

        if (strncmp(*at, prefix, sizeof prefix - 1) != 0 &&
            strncmp(*at, library, sizeof library - 1) != 0)
            continue;
        words[n++] = mem_strdup("-x");
        words[n++] = mem_printf("%.*s", (int)length, *at);
    }
    return n;
}

enum osp_status mpirun_command(char ***out, const struct mpirun_options *opt, const char *program)
{
    char **words = mem_new(WORDS_MAX * sizeof *words);
    int n = 0;
    enum osp_status st;

    TRY(mpirun_check(opt));
    words[n++] = mem_strdup("mpirun");
    words[n++] = mem_strdup("-q"); /* the log says which rank has failed */
    if (opt->hosts == NULL) {      /* does not look for ssh */
        words[n++] = mem_strdup("--mca");
        words[n++] = mem_strdup("plm");
        words[n++] = mem_strdup("isolated");
    } else {
        words[n++] = mem_strdup("--host");
        words[n++] = host_list(opt);
    }
    words[n++] = mem_strdup("--mca");
    words[n++] = mem_strdup("orte_local_tmpdir_base");
    words[n++] = mem_strdup(opt->folder);
    words[n++] = mem_strdup("--oversubscribe"); /* a rank is a process, not a core */
    words[n++] = mem_strdup("--bind-to");       /* ranks bind their threads themselves */
    words[n++] = mem_strdup("none");
    words[n++] = mem_strdup("-x");
    words[n++] = mem_strdup(RANK_TOKEN_VARIABLE);
    if (opt->hosts != NULL)
        n += pass_variables(words + n);
    words[n++] = mem_strdup("-n");
    words[n++] = mem_printf("%d", opt->n_ranks - 1);
    words[n++] = mem_strdup(program);
    words[n++] = mem_strdup(opt->argument);
    words[n++] = mem_strdup(opt->address);
    *out = words;
out:
    if (st != OSP_OK)
        mpirun_command_free(words);
    return st;
}

void mpirun_command_free(char **words)
{
    for (int i = 0; words != NULL && words[i] != NULL; i++)
        free(words[i]);
    free(words);
}

enum osp_status mpirun_start(pid_t *pid, const struct mpirun_options *opt)
{
    char program[PATH_MAX], token[sizeof RANK_TOKEN_VARIABLE + RANK_TOKEN_BYTES], **words = NULL;
    /* As in a container; otherwise Open MPI refuses to run for root. */
    const char *const variables[] = {token, "OMPI_ALLOW_RUN_AS_ROOT=1",
                                     "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    enum osp_status st;

    if (n <= 0)
        return fail(OSP_EIO, "/proc/self/exe: %s", strerror(errno));
    program[n] = '\0';
    snprintf(token, sizeof token, "%s=%s", RANK_TOKEN_VARIABLE, opt->token);
    TRY(make_folder(opt->folder));
    TRY(mpirun_command(&words, opt, program));
    st = process_run(pid, words, variables);
    if (st == OSP_ENOTFOUND)
        st = fail(OSP_ENOTFOUND, "mpirun is not installed; the ranks are started by Open MPI "
                                 "(Debian, Ubuntu: apt-get install openmpi-bin)");
out:
    mpirun_command_free(words);
    return st;
}
