#include "cuda/launch/collective.h"

void launch_collective(struct launch_list *list, const struct collective *c)
{
    static const char *const names[N_COLLECTIVES] = {
        [COLLECTIVE_ALL_GATHER] = "nccl_all_gather",
        [COLLECTIVE_ALL_TO_ALL] = "nccl_all_to_all",
        [COLLECTIVE_BROADCAST] = "nccl_broadcast",
        [COLLECTIVE_GATHER_ROWS] = "nccl_gather_rows",
    };
    const struct launch l = {
        .name = names[c->kind], .grid = {1, 1, 1}, .block = {1, 1, 1}, .cluster = 1, .op = -1};

    if (!list->is_query && launch_list_add(list, &l) != NULL)
        launch_list_param(list, c, sizeof(*c), _Alignof(struct collective));
}
