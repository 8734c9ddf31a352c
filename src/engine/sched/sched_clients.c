/* Clients and users by key, and their counters of served units. */
#include "engine/sched/sched_clients.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/str.h"

/* ---- lists ---- */

static void list_append(struct client_list *l, struct client *client)
{
    client->before = l->last;
    client->after = NULL;
    if (l->last != NULL)
        l->last->after = client;
    else
        l->first = client;
    l->last = client;
    l->n++;
}

static void list_unlink(struct client_list *l, struct client *client)
{
    if (client->before != NULL)
        client->before->after = client->after;
    else
        l->first = client->after;
    if (client->after != NULL)
        client->after->before = client->before;
    else
        l->last = client->before;
    l->n--;
}

/* ---- find, add, evict ---- */

/* The NUL separates a client's key from its user's. */
static uint64_t hash_of(const struct client *parent, const char *key)
{
    return hash_bytes(parent->parent == NULL ? HASH_INIT : parent->hash, key, strlen(key) + 1);
}

static struct client **bucket_of(struct clients *c, uint64_t hash)
{
    return &c->bucket[hash % CLIENT_BUCKETS];
}

/* Frees an idle client with its children, which are idle, too. */
static void forget(struct clients *c, struct client *client)
{
    struct client **link = bucket_of(c, client->hash);

    assert(client->n_live == 0);
    while (client->idle.first != NULL)
        forget(c, client->idle.first);
    while (*link != client)
        link = &(*link)->next_in_bucket;
    *link = client->next_in_bucket;
    list_unlink(&client->parent->idle, client);
    free(client->key);
    free(client);
}

void clients_release(struct clients *c)
{
    assert(c->root.n_live == 0);
    while (c->root.idle.first != NULL)
        forget(c, c->root.idle.first);
}

static struct client *find(struct clients *c, const struct client *parent, const char *key)
{
    struct client *client = *bucket_of(c, hash_of(parent, key));

    while (client != NULL && (client->parent != parent || strcmp(client->key, key) != 0))
        client = client->next_in_bucket;
    return client;
}

/* Appends to the idle list; beyond its limit the oldest idle one is evicted. */
static void remember(struct clients *c, struct client *client)
{
    struct client *parent = client->parent;
    const int n_max = parent == &c->root ? CLIENTS_IDLE_MAX : USERS_IDLE_MAX;

    list_append(&parent->idle, client);
    if (parent->idle.n > n_max)
        forget(c, parent->idle.first);
}

static enum osp_status make(struct client **out, struct clients *c, struct client *parent,
                            const char *key)
{
    struct client **bucket, *client;
    enum osp_status st;

    TRY(mem_try_array(&client, 1, sizeof *client, "a client's place"));
    st = str_copy(&client->key, key, "a client's key");
    if (st != OSP_OK) {
        free(client);
        return st;
    }
    client->parent = parent;
    client->hash = hash_of(parent, key);
    bucket = bucket_of(c, client->hash);
    client->next_in_bucket = *bucket;
    *bucket = client;
    remember(c, client);
    *out = client;
out:
    return st;
}

static enum osp_status find_or_make(struct client **out, struct clients *c, struct client *parent,
                                    const char *key)
{
    *out = find(c, parent, key != NULL ? key : "");
    return *out != NULL ? OSP_OK : make(out, c, parent, key != NULL ? key : "");
}

/* ---- the first request ---- */

/* The least counter among the waiting children; with none waiting, the greatest counter that a
 * child had when it was admitted. Preempted requests do not count: such a counter may be far
 * behind. */
static int64_t least_served(const struct client *parent)
{
    int64_t least = INT64_MAX;

    for (const struct client *i = parent->live.first; i != NULL; i = i->after)
        if (i->n_fresh > 0 && i->served < least)
            least = i->served;
    return least == INT64_MAX ? parent->last_served : least;
}

static void lift(struct client *client)
{
    int64_t least = least_served(client->parent);

    if (client->n_fresh == 0 && client->served < least)
        client->served = least;
}

static void add_inflight(struct client *client)
{
    if (client->n_live++ > 0 || client->parent == NULL)
        return;
    list_unlink(&client->parent->idle, client);
    list_append(&client->parent->live, client);
}

enum osp_status clients_add_request(struct client **user, struct clients *c, const char *client,
                                    const char *user_key)
{
    struct client *of;
    enum osp_status st;

    TRY(find_or_make(&of, c, &c->root, client));
    TRY(find_or_make(user, c, of, user_key));
    lift(of);
    lift(*user);
    for (struct client *i = *user; i != NULL; i = i->parent)
        add_inflight(i);
out:
    return st;
}

/* Users first, so that a client that is idle has idle users only. */
void clients_remove_request(struct clients *c, struct client *user)
{
    for (struct client *i = user, *parent; i != NULL; i = parent) {
        parent = i->parent;
        assert(i->n_live > 0);
        if (--i->n_live > 0 || parent == NULL)
            continue;
        assert(i->n_waiting == 0);
        list_unlink(&parent->live, i);
        remember(c, i);
    }
}

/* ---- counting ---- */

void client_request_queued(struct client *user, bool is_fresh)
{
    for (struct client *i = user; i != NULL; i = i->parent) {
        i->n_waiting++;
        i->n_fresh += is_fresh;
    }
}

void client_request_dequeued(struct client *user, bool is_fresh)
{
    for (struct client *i = user; i != NULL; i = i->parent) {
        assert(i->n_waiting > 0);
        i->n_waiting--;
        i->n_fresh -= is_fresh;
    }
}

void client_admitted(struct client *user)
{
    for (struct client *i = user; i->parent != NULL; i = i->parent)
        if (i->served > i->parent->last_served)
            i->parent->last_served = i->served;
}

void client_charge(struct client *user, int64_t units)
{
    for (struct client *i = user; i != NULL; i = i->parent)
        i->served += units;
}
