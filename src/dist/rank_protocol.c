#include "dist/rank_protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "dist/rank_address.h"
#include "dist/rank_message.h"

/* The program itself: ranks of two builds could compute different bits. */
static enum osp_status hash_program(uint64_t *out)
{
    struct file_map map;
    enum osp_status st;

    TRY(file_map_open(&map, "/proc/self/exe"));
    *out = hash_bytes(HASH_INIT, map.data, map.size_bytes);
    file_map_close(&map);
out:
    return st;
}

/* Appends the target of a link in /proc: a namespace, as a name with a number. */
static void add_namespace(char *out, size_t n_bytes, const char *path)
{
    const size_t at = strlen(out);
    const ssize_t n = readlink(path, out + at, n_bytes - at - 1);

    out[at + (n > 0 ? (size_t)n : 0)] = '\0';
}

/* Ranks in other containers of one machine do not see each other's memory, and so are on another
 * one: process ids and networks have namespaces. */
static void name_machine(struct rank_hello *h)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (f != NULL) {
        if (fgets(h->machine, 64, f) == NULL)
            h->machine[0] = '\0';
        h->machine[strcspn(h->machine, "\n")] = '\0';
        fclose(f);
    }
    add_namespace(h->machine, sizeof h->machine, "/proc/self/ns/pid");
    add_namespace(h->machine, sizeof h->machine, "/proc/self/ns/net");
}

enum osp_status rank_hello_make(struct rank_hello *out, int n_ranks, int mesh_port)
{
    memset(out, 0, sizeof *out);
    out->n_ranks = n_ranks;
    out->pid = (int32_t)getpid();
    out->mesh_port = mesh_port;
    if (gethostname(out->host, sizeof out->host - 1) != 0)
        strcpy(out->host, "unknown");
    name_machine(out);
    return hash_program(&out->build);
}

const char *rank_token(void)
{
    const char *token = getenv(RANK_TOKEN_VARIABLE);

    return token != NULL ? token : "";
}

enum osp_status rank_token_check(void)
{
    const size_t n = strlen(rank_token());

    return n < RANK_TOKEN_BYTES
               ? OSP_OK
               : fail(OSP_EINVAL, "environment variable %s has %zu bytes, expected at most %d",
                      RANK_TOKEN_VARIABLE, n, RANK_TOKEN_BYTES - 1);
}

struct rank_join rank_join_make(int rank, enum rank_connection connection)
{
    struct rank_join j;

    memset(&j, 0, sizeof j);
    j.version = RANK_PROTOCOL_VERSION;
    j.rank = rank;
    j.connection = (int32_t)connection;
    snprintf(j.token, sizeof j.token, "%s", rank_token());
    return j;
}

bool rank_join_is_valid(const struct rank_join *j, int n_ranks, const char *token)
{
    char own[RANK_TOKEN_BYTES] = "";
    unsigned char differs = 0;

    snprintf(own, sizeof own, "%s", token);
    for (int i = 0; i < RANK_TOKEN_BYTES; i++) /* in the same time wherever they differ */
        differs |= (unsigned char)(own[i] ^ j->token[i]);
    return differs == 0 && j->version == RANK_PROTOCOL_VERSION && j->rank > 0 &&
           j->rank < n_ranks && j->connection >= 0 && j->connection < N_CONNECTIONS;
}

enum osp_status rank_connect_as(int *out, const char *address, int rank,
                                enum rank_connection connection, int timeout_ms)
{
    const struct rank_join join = rank_join_make(rank, connection);
    int fd = -1;
    enum osp_status st;

    *out = -1;
    TRY(rank_connect(&fd, address, timeout_ms));
    TRY(rank_send(fd, RANK_JOIN, &join, sizeof join, ANSWER_MS_MAX, NULL));
    *out = fd;
    fd = -1;
out:
    if (fd >= 0)
        close(fd);
    return st;
}

void sockets_close(int *sockets, int n)
{
    for (int i = 0; i < n; i++)
        if (sockets[i] >= 0) {
            close(sockets[i]);
            sockets[i] = -1;
        }
}
