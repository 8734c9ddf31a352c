#include "base/cancel.h"

#include <stddef.h>

static _Thread_local const atomic_bool *canceled;

void cancel_begin(const atomic_bool *flag)
{
    canceled = flag;
}

void cancel_end(void)
{
    canceled = NULL;
}

bool cancel_is_set(void)
{
    return canceled != NULL && atomic_load_explicit(canceled, memory_order_relaxed);
}
