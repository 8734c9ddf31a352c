#include "cuda/launch/launch_list.h"

#include <stdlib.h>
#include <string.h>

void launch_list_init(struct launch_list *list, const struct gpu_desc *gpu)
{
    launch_list_clear(list);
    list->gpu = gpu;
}

void launch_list_clear(struct launch_list *list)
{
    list->n = list->n_params = list->n_bytes = list->n_touches = list->n_exchanges = 0;
    list->is_query = list->has_failed = false;
}

void launch_list_free(struct launch_list *list)
{
    free(list->launches);
    free(list->params);
    free(list->bytes);
    free(list->touches);
    *list = (struct launch_list){0};
}

/* Room for n items of size_bytes in *items. */
static bool reserve(struct launch_list *list, void **items, int *capacity, int n, size_t size_bytes)
{
    void *more;

    if (n <= *capacity)
        return true;
    more = realloc(*items, (size_t)(2 * n) * size_bytes);
    if (more == NULL) {
        list->has_failed = true;
        return false;
    }
    *items = more;
    *capacity = 2 * n;
    return true;
}

struct launch *launch_list_add(struct launch_list *list, const struct launch *l)
{
    struct launch *added;

    if (!reserve(list, (void **)&list->launches, &list->capacity, list->n + 1, sizeof(*l)))
        return NULL;
    added = &list->launches[list->n++];
    *added = *l;
    added->first_param = list->n_params;
    added->n_params = 0;
    return added;
}

void launch_list_param(struct launch_list *list, const void *value, size_t size_bytes,
                       size_t align_bytes)
{
    const size_t first = ((size_t)list->n_bytes + align_bytes - 1) / align_bytes * align_bytes;
    const size_t end = first + size_bytes;

    if (!reserve(list, (void **)&list->params, &list->params_capacity, list->n_params + 1,
                 sizeof(*list->params)) ||
        !reserve(list, (void **)&list->bytes, &list->bytes_capacity, (int)end, 1))
        return;
    memset(list->bytes + list->n_bytes, 0, first - (size_t)list->n_bytes);
    memcpy(list->bytes + first, value, size_bytes);
    list->params[list->n_params++] = (uint32_t)first;
    list->n_bytes = (int)end;
    list->launches[list->n - 1].n_params++;
}

void launch_list_touch(struct launch_list *list, struct touch t)
{
    if (!reserve(list, (void **)&list->touches, &list->touches_capacity, list->n_touches + 1,
                 sizeof(t)))
        return;
    list->touches[list->n_touches++] = t;
}
