/* Clients by key, and the counter that a client takes up its place with. */
#include "engine/sched_clients.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/str.h"

static struct client **bucket_of(struct clients *c, const char *key)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (const char *s = key; *s != '\0'; s++)
        hash = (hash ^ (unsigned char)*s) * 1099511628211u;
    return &c->bucket[hash % CLIENT_BUCKETS];
}

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

static void forget(struct clients *c, struct client *client)
{
    struct client **link = bucket_of(c, client->key);

    while (*link != client)
        link = &(*link)->next_in_bucket;
    *link = client->next_in_bucket;
    list_unlink(&c->idle, client);
    free(client->key);
    free(client);
}

void clients_release(struct clients *c)
{
    assert(c->live.n == 0);
    while (c->idle.first != NULL)
        forget(c, c->idle.first);
}

static struct client *find(struct clients *c, const char *key)
{
    struct client *client = *bucket_of(c, key);

    while (client != NULL && strcmp(client->key, key) != 0)
        client = client->next_in_bucket;
    return client;
}

static enum osp_status make(struct client **out, struct clients *c, const char *key)
{
    struct client **bucket = bucket_of(c, key), *client;
    enum osp_status st;

    TRY(mem_try_array(&client, 1, sizeof *client, "a client's place"));
    st = str_copy(&client->key, key, "a client's key");
    if (st != OSP_OK) {
        free(client);
        return st;
    }
    client->next_in_bucket = *bucket;
    *bucket = client;
    list_append(&c->idle, client);
    *out = client;
out:
    return st;
}

enum osp_status clients_join(struct client **out, struct clients *c, const char *key)
{
    struct client *client;
    enum osp_status st = OSP_OK;

    if (key == NULL)
        key = "";
    client = find(c, key);
    if (client == NULL)
        TRY(make(&client, c, key));
    if (client->n_live++ == 0) {
        list_unlink(&c->idle, client);
        list_append(&c->live, client);
    }
    *out = client;
out:
    return st;
}

void clients_leave(struct clients *c, struct client *client)
{
    assert(client->n_live > 0);
    if (--client->n_live > 0)
        return;
    assert(client->n_waiting == 0);
    list_unlink(&c->live, client);
    list_append(&c->idle, client);
    if (c->idle.n > CLIENTS_IDLE_MAX)
        forget(c, c->idle.first);
}

/* The least counter among those who wait for their turn; with nobody waiting, the most that one had when it was admitted.
 * Who gave way does not count: its turn is next whatever it was served, and its counter may be far behind, for others were
 * served alone while it ran. */
static int64_t least_served(const struct clients *c)
{
    int64_t least = INT64_MAX;

    for (const struct client *i = c->live.first; i != NULL; i = i->after)
        if (i->n_fresh > 0 && i->served < least)
            least = i->served;
    return least == INT64_MAX ? c->last_served : least;
}

void client_lift(struct clients *c, struct client *client)
{
    int64_t least = least_served(c);

    if (client->n_fresh == 0 && client->served < least)
        client->served = least;
}
