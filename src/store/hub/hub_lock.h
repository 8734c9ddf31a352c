/* Locks between processes that fill the cache: flock(2) on a file in .locks/, as huggingface_hub's
 * filelock takes it, so that osprey and hf wait for each other. */
#ifndef STORE_HUB_HUB_LOCK_H
#define STORE_HUB_HUB_LOCK_H

#include "base/status.h"

/* *fd receives the lock, or -1 while another process has it. The lock ends with the process, too.
 * OSP_EUNSUPPORTED: the file system has no locks. */
CHECKED enum osp_status hub_lock_try(int *fd, const char *path);
void hub_lock_release(int *fd); /* accepts -1 and sets it; the file stays, as with filelock */

#endif
